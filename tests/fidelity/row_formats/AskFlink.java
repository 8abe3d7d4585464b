import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.sql.Date;
import java.sql.Time;
import java.sql.Timestamp;
import java.time.Instant;
import java.util.Base64;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.typeutils.RowTypeInfo;
import org.apache.flink.formats.csv.CsvRowDeserializationSchema;
import org.apache.flink.formats.csv.CsvRowSerializationSchema;
import org.apache.flink.formats.json.JsonRowDeserializationSchema;
import org.apache.flink.formats.json.JsonRowSerializationSchema;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.types.Row;

/** Answers the cases on stdin, a JSON object a line, as Flink's row formats do; cases.py says what stands in one. */
public class AskFlink {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        java.util.Scanner lines = new java.util.Scanner(System.in, StandardCharsets.UTF_8);
        java.io.PrintStream out = new java.io.PrintStream(System.out, true, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String line = lines.nextLine();
            String answer;
            try {
                answer = answer(MAPPER.readTree(line));
            } catch (Throwable problem) {
                answer = "error";
            }
            out.println(MAPPER.writeValueAsString(answer));
        }
    }

    private static String answer(JsonNode question) throws Exception {
        TypeInformation<Row> type = row(question.get("type"));
        boolean lax = question.path("ignore").asBoolean();
        boolean isJson = question.get("format").asText().equals("json");
        if (question.has("message")) {
            DeserializationSchema<Row> reads;
            if (isJson) {
                JsonRowDeserializationSchema.Builder builder = new JsonRowDeserializationSchema.Builder(type);
                if (lax) {
                    builder.ignoreParseErrors();
                }
                if (question.path("missing").asBoolean()) {
                    builder.failOnMissingField();
                }
                reads = builder.build();
            } else {
                CsvRowDeserializationSchema.Builder builder = new CsvRowDeserializationSchema.Builder(type);
                builder.setIgnoreParseErrors(lax);
                if (question.has("null")) {
                    builder.setNullLiteral(question.get("null").asText());
                }
                if (question.has("escape")) {
                    builder.setEscapeCharacter(question.get("escape").asText().charAt(0));
                }
                if (question.path("comments").asBoolean()) {
                    builder.setAllowComments(true);
                }
                reads = builder.build();
            }
            reads.open(null);
            Row row = reads.deserialize(Base64.getDecoder().decode(question.get("message").asText()));
            return row == null ? "none" : text(row);
        }
        SerializationSchema<Row> writes;
        if (isJson) {
            writes = JsonRowSerializationSchema.builder().withTypeInfo(type).build();
        } else {
            CsvRowSerializationSchema.Builder builder = new CsvRowSerializationSchema.Builder(type);
            if (question.has("null")) {
                builder.setNullLiteral(question.get("null").asText());
            }
            if (question.has("escape")) {
                builder.setEscapeCharacter(question.get("escape").asText().charAt(0));
            }
            if (question.path("unquoted").asBoolean()) {
                builder.disableQuoteCharacter();
            }
            writes = builder.build();
        }
        writes.open(null);
        return new String(writes.serialize((Row) value(question.get("type"), question.get("value"))), StandardCharsets.UTF_8);
    }

    private static RowTypeInfo row(JsonNode type) {
        TypeInformation<?>[] parts = new TypeInformation<?>[type.get("elements").size()];
        String[] names = new String[parts.length];
        for (int i = 0; i < parts.length; i++) {
            parts[i] = type(type.get("elements").get(i));
            names[i] = type.get("names").get(i).asText();
        }
        return new RowTypeInfo(parts, names);
    }

    private static TypeInformation<?> type(JsonNode type) {
        switch (type.get("type").asText()) {
            case "STRING": return Types.STRING;
            case "BOOLEAN": return Types.BOOLEAN;
            case "BYTE": return Types.BYTE;
            case "SHORT": return Types.SHORT;
            case "INT": return Types.INT;
            case "LONG": return Types.LONG;
            case "FLOAT": return Types.FLOAT;
            case "DOUBLE": return Types.DOUBLE;
            case "CHAR": return Types.CHAR;
            case "BIG_INT": return Types.BIG_INT;
            case "BIG_DEC": return Types.BIG_DEC;
            case "SQL_DATE": return Types.SQL_DATE;
            case "SQL_TIME": return Types.SQL_TIME;
            case "SQL_TIMESTAMP": return Types.SQL_TIMESTAMP;
            case "INSTANT": return Types.INSTANT;
            case "ROW": return row(type);
            case "MAP": return Types.MAP(type(type.get("elements").get(0)), type(type.get("elements").get(1)));
            case "PRIMITIVE_ARRAY": return Types.PRIMITIVE_ARRAY(type(type.get("elements").get(0)));
            case "OBJECT_ARRAY": return Types.OBJECT_ARRAY(type(type.get("elements").get(0)));
            default: throw new IllegalArgumentException(type.toString());
        }
    }

    /** Makes a value of its text. */
    private static Object value(JsonNode type, JsonNode value) {
        if (value == null || value.isNull()) {
            return null;
        }
        String text = value.asText();
        switch (type.get("type").asText()) {
            case "BOOLEAN": return Boolean.valueOf(text);
            case "BYTE": return Byte.valueOf(text);
            case "SHORT": return Short.valueOf(text);
            case "INT": return Integer.valueOf(text);
            case "LONG": return Long.valueOf(text);
            case "FLOAT": return Float.valueOf(text);
            case "DOUBLE": return Double.valueOf(text);
            case "BIG_INT": return new BigInteger(text);
            case "BIG_DEC": return new BigDecimal(text);
            case "SQL_DATE": return Date.valueOf(text);
            case "SQL_TIME": return Time.valueOf(text);
            case "SQL_TIMESTAMP": return Timestamp.valueOf(text);
            case "INSTANT": return Instant.parse(text);
            case "PRIMITIVE_ARRAY": return Base64.getDecoder().decode(text);
            case "OBJECT_ARRAY":
                Object[] array = (Object[])
                        java.lang.reflect.Array.newInstance(type(type.get("elements").get(0)).getTypeClass(), value.size());
                for (int i = 0; i < array.length; i++) {
                    array[i] = value(type.get("elements").get(0), value.get(i));
                }
                return array;
            case "ROW":
                Row row = new Row(value.size());
                for (int i = 0; i < row.getArity(); i++) {
                    row.setField(i, value(type.get("elements").get(i), value.get(i)));
                }
                return row;
            default: return text;
        }
    }

    /** Says a value that both languages have in the same words; a text in quotes, with its escapes. */
    private static String text(Object value) throws Exception {
        if (value == null) {
            return "null";
        }
        if (value instanceof Row) {
            Row row = (Row) value;
            StringBuilder text = new StringBuilder("(");
            for (int i = 0; i < row.getArity(); i++) {
                text.append(i == 0 ? "" : ", ").append(text(row.getField(i)));
            }
            return text.append(")").toString();
        }
        if (value instanceof Object[]) {
            StringBuilder text = new StringBuilder("[");
            for (Object part : (Object[]) value) {
                text.append(text.length() == 1 ? "" : ", ").append(text(part));
            }
            return text.append("]").toString();
        }
        if (value instanceof Map) {
            TreeMap<String, String> sorted = new TreeMap<>();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                sorted.put(text(entry.getKey()), text(entry.getValue()));
            }
            return sorted.toString();
        }
        if (value instanceof byte[]) {
            return "bytes:" + Base64.getEncoder().encodeToString((byte[]) value);
        }
        if (value instanceof Double) { // its bits: both languages write numbers differently
            return "double:" + Long.toHexString(Double.doubleToLongBits((Double) value));
        }
        if (value instanceof Float) {
            return "double:" + Long.toHexString(Double.doubleToLongBits((Float) value));
        }
        if (value instanceof String || value instanceof Character) {
            if (value.toString().length() > 1000) {
                return value.toString().length() + " characters";
            }
            StringBuilder text = new StringBuilder("'");
            for (char one : value.toString().toCharArray()) {
                text.append(one >= ' ' && one < 127 ? String.valueOf(one) : String.format("\\u%04x", (int) one));
            }
            return text.append("'").toString();
        }
        if (value instanceof BigDecimal) { // its value: its scale is lost where Flink reads it
            return ((BigDecimal) value).stripTrailingZeros().toString();
        }
        if (value instanceof Date || value instanceof Time) {
            return value.toString();
        }
        if (value instanceof Timestamp) {
            return ((Timestamp) value).toLocalDateTime().toString();
        }
        return value.toString();
    }
}
