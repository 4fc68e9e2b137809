"""One other product, in its own process and virtual environment: `python _peer.py NAME STORE fill N|work|left|one`.

A handler writes one byte to the file PROBE, so that who measures sees its start; nothing else is done.
"""

# Run by path under another interpreter: nothing of this project can be imported here.
import asyncio
import os
import sys
import time

_PROBE = os.open(os.environ["PROBE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def mark() -> None:
    os.write(_PROBE, f"{time.time():.6f}\n".encode())


def done() -> None:
    """Note when the call that enqueues came back."""
    global done_at
    done_at = time.time()


done_at = 0.0


def huey(store, what, number):
    from huey import SqliteHuey

    app = SqliteHuey("bench", filename=store, fsync=True)

    @app.task()
    def noop(_seq):
        mark()

    if what == "work":
        app.create_consumer(workers=1, worker_type="thread", periodic=False, initial_delay=0.01, max_delay=0.05).run()
    elif what == "left":
        print(app.pending_count())
    else:
        for seq in range(number):
            noop(seq)
        done()


def procrastinate(store, what, number):
    import procrastinate

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=store))

    @app.task(name="noop", queue="q")
    async def noop(seq):
        mark()

    async def run():
        async with app.open_async():
            if what == "work":
                await app.run_worker_async(queues=["q"], concurrency=30)
            elif what == "left":
                jobs = await app.job_manager.list_jobs_async()
                print(sum(job.status in {"todo", "doing"} for job in jobs))
            else:
                if what == "fill":
                    await app.schema_manager.apply_schema_async()
                for at in range(0, number, 1000):
                    await noop.batch_defer_async(*({"seq": seq} for seq in range(at, min(number, at + 1000))))
                done()

    asyncio.run(run())


def pgqueuer(store, what, number):
    import asyncpg
    import uvloop
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    async def run():
        driver = AsyncpgDriver(await asyncpg.connect(store))
        if what == "work":
            product = PgQueuer(driver)

            @product.entrypoint("noop")
            async def noop(_job):
                mark()

            await product.qm.run(batch_size=100)
        queries = Queries(driver)
        if what == "left":
            print(sum(row.count for row in await queries.queue_size()))
            return
        if what == "fill":
            await queries.install()
        for at in range(0, number, 1000):
            most = min(1000, number - at)
            await queries.enqueue(["noop"] * most, [None] * most, [0] * most)
        done()

    uvloop.run(run())


if __name__ == "__main__":
    name, store, what, *number = sys.argv[1:]
    globals()[name](store, what, int(number[0]) if number else 1)
    if what == "one":
        print(f"{done_at:.6f}")
