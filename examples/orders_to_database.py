"""Enriches orders with prices from a database, and writes them to a table exactly once, and totals by upserts.

    pystate run examples/orders_to_database.py DATABASE_URL [COUNT]

`sqlite:////tmp/shop.db` needs nothing but `pip install 'pystate-spark[sql]'`;
`postgresql://user:password@host/database` needs `pystate-spark[postgres]`. Missing tables are created.
"""

import sys

import sqlalchemy

from pystate.common import Duration, Row, Types
from pystate.connectors.sql import SqlConnectionOptions, SqlLookup, SqlSink
from pystate.datastream import StreamExecutionEnvironment

PRODUCTS = ["apple", "pear", "plum"]
ORDER = Types.ROW_NAMED(["id", "product", "pieces"], [Types.LONG(), Types.STRING(), Types.INT()])
LINE = Types.ROW_NAMED(["id", "product", "cents"], [Types.LONG(), Types.STRING(), Types.LONG()])
TABLES = (
    "CREATE TABLE IF NOT EXISTS products (name VARCHAR(50) PRIMARY KEY, cents INTEGER)",
    "CREATE TABLE IF NOT EXISTS order_lines (id BIGINT, product VARCHAR(50), cents BIGINT)",
    "CREATE TABLE IF NOT EXISTS totals (product VARCHAR(50) PRIMARY KEY, cents BIGINT)",
)


def make_tables(url):
    engine = sqlalchemy.create_engine(SqlConnectionOptions(url).url())
    with engine.begin() as connection:
        for statement in TABLES:
            connection.exec_driver_sql(statement)
        if connection.exec_driver_sql("SELECT count(*) FROM products").scalar() == 0:
            for number, name in enumerate(PRODUCTS, 1):
                connection.exec_driver_sql(f"INSERT INTO products VALUES ('{name}', {number * 10})")
    engine.dispose()


def with_price(order, products):
    cents = products[0].cents if products else 0
    return Row(id=order.id, product=order.product, cents=order.pieces * cents)


def main():
    url, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100
    make_tables(url)
    env = StreamExecutionEnvironment.get_execution_environment()
    orders = env.from_collection(
        [Row(id=number, product=PRODUCTS[number % 3], pieces=1 + number % 5) for number in range(count)], type_info=ORDER
    )
    price = SqlLookup(
        SqlConnectionOptions(url),
        "SELECT cents FROM products WHERE name = ?",
        lambda order: (order.product,),
        with_price,
        max_rows=1000,
        expire_after_write=Duration.of_minutes(10),
    )
    lines = orders.map(price, output_type=LINE).name("price").uid("price")
    once = SqlSink.builder().set_url(url).set_table("order_lines").set_columns("id", "product", "cents").build()
    lines.sink_to(once).name("order lines").uid("order-lines")
    totals = lines.key_by(lambda line: line.product, key_type=Types.STRING()).sum("cents").uid("cents")
    upserts = SqlSink.builder().set_url(url).set_table("totals").set_columns("product", "cents").set_upsert_keys("product")
    totals.sink_to(upserts.build()).name("totals").uid("totals")
    env.execute("orders to a database")


if __name__ == "__main__":
    main()
