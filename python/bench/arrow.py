# SPDX-License-Identifier: Apache-2.0
"""Imports the same edges from a TSV and, through DuckDB, from Parquet, each in a process of its own.

    python python/bench/arrow.py [--edges N] [--nodes N] [--memory SIZE] [--directory DIR]

Prints seconds and peak memory of both, and their ratio; checks that the datasets are equal, array by array. DuckDB's
threads and memory are bounded too. Needs the package gneiss_graph and duckdb.
"""
import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

TSV = """
import json, resource, sys, time
import gneiss_graph as gn
tsv, parquet, out, memory = sys.argv[1:]
begin = time.perf_counter()
gn.import_edges(tsv, out=out, memory=memory, quiet=True)
"""
PARQUET = """
import json, resource, sys, time
import duckdb
import gneiss_graph as gn
tsv, parquet, out, memory = sys.argv[1:]
begin = time.perf_counter()
duckdb.sql("SET memory_limit = '512MiB'; SET preserve_insertion_order = false; SET enable_progress_bar = false")
gn.import_edges(duckdb.read_parquet(parquet), out=out, memory=memory, quiet=True)
"""
REPORT = """
seconds = time.perf_counter() - begin
print(json.dumps({"seconds": seconds, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10}))
"""
# A multiplicative hash: ends are skewed, names have 9 to 14 bytes.
EDGES = """
SELECT 'node' || ((i * 2654435761 % 4294967291) % {nodes}) AS head,
       'user' || CAST(floor({nodes} * pow((i * 40503 % 65521) / 65521.0, 3)) AS BIGINT) AS tail
FROM range({edges}) t(i)
"""


def checksums(dataset):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(dataset.glob("*.npy"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--nodes", type=int, default=2_000_000)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--directory", type=pathlib.Path, help="for the files (default: TMPDIR)")
    flags = parser.parse_args()
    import duckdb
    with tempfile.TemporaryDirectory(dir=flags.directory) as directory:
        at = pathlib.Path(directory)
        query = EDGES.format(nodes=flags.nodes, edges=flags.edges)
        tsv, parquet = at / "edges.tsv", at / "edges.parquet"
        duckdb.sql(f"COPY ({query}) TO '{tsv}' (DELIMITER '\t', HEADER false)")
        duckdb.sql(f"COPY ({query}) TO '{parquet}' (FORMAT parquet)")
        print(f"{flags.edges:,} edges: TSV {tsv.stat().st_size >> 20} MiB, Parquet {parquet.stat().st_size >> 20} MiB")
        seconds, found = {}, {}
        for name, text in (("TSV", TSV), ("Parquet", PARQUET)):
            out = at / name
            done = subprocess.run([sys.executable, "-c", text + REPORT, tsv, parquet, out, flags.memory], check=True,
                                  stdout=subprocess.PIPE, text=True)
            result = json.loads(done.stdout.splitlines()[-1])
            seconds[name], found[name] = result["seconds"], checksums(out)
            print(f"{name}: {result['seconds']:.2f} s, peak RSS {result['peak'] >> 20} MiB")
        if found["TSV"] != found["Parquet"]:
            raise SystemExit("the datasets differ")
        print(f"equal datasets; Parquet takes {seconds['Parquet'] / seconds['TSV']:.2f} of the seconds of TSV")


if __name__ == "__main__":
    main()
