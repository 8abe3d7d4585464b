"""Names of the Avro formats, which aren't supported yet; Spark's Avro package reads and writes it."""

from pystate.common.not_there import not_there

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]

_WHY = "Avro formats come later."
_READ = 'read Avro with Spark: env.from_data_frame(env.spark.readStream.format("avro")...load(path))'
_WRITE = 'write Avro with Spark: for_each_batch(lambda frame, epoch: frame.write.format("avro").save(...))'

AvroSchema = not_there("AvroSchema", _WHY, _READ)
GenericRecordAvroTypeInfo = not_there("GenericRecordAvroTypeInfo", _WHY, _READ)
AvroInputFormat = not_there("AvroInputFormat", _WHY, _READ)
AvroRowDeserializationSchema = not_there("AvroRowDeserializationSchema", _WHY, _READ)
AvroRowSerializationSchema = not_there("AvroRowSerializationSchema", _WHY, _WRITE)
AvroBulkWriters = not_there("AvroBulkWriters", _WHY, _WRITE)
