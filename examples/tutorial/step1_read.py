"""Step 1: read payments, and print the large ones.

pystate run step1_read.py INPUT
"""

import sys

from payments import LARGE_CENTS, read

from pystate.datastream import StreamExecutionEnvironment


def large(payments):
    return payments.filter(lambda payment: payment.cents >= LARGE_CENTS).name("large")


def main(folder):
    env = StreamExecutionEnvironment.get_execution_environment()
    large(read(env, folder)).print()
    env.execute("payments")


if __name__ == "__main__":
    main(sys.argv[1])
