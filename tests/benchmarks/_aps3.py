"""APScheduler 3 firing very many jobs of one instant: `python _aps3.py STORE_URL NUMBER`, in its own environment.

Prints the milliseconds from the due instant to each job's start, sorted. No misfire grace: a late job runs.
"""

# Run by path under another interpreter: nothing of this project can be imported here.
import datetime as dt
import sys
import threading
import time

from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

STARTED: list[float] = []


def mark() -> None:
    STARTED.append(time.time())


if __name__ == "__main__":
    store, number = sys.argv[1], int(sys.argv[2])
    import _aps3  # jobs are stored by the name of their function, which must not be in __main__

    scheduler = BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(url=store)},
        job_defaults={"misfire_grace_time": None, "coalesce": True},
        timezone="UTC",
    )
    scheduler.start(paused=True)
    due = int(time.time()) + 10 + number // 100
    at = dt.datetime.fromtimestamp(due, tz=dt.UTC)
    for each in range(number):
        scheduler.add_job(_aps3.mark, "cron", second=at.second, minute=at.minute, hour=at.hour, id=f"job-{each}")
    if time.time() > due - 1:
        sys.exit("adding the jobs took longer than was planned for")
    scheduler.resume()
    never = threading.Event()
    while len(_aps3.STARTED) < number and time.time() < due + 600:
        never.wait(0.05)
    scheduler.shutdown(wait=False)
    print(" ".join(f"{(started - due) * 1000:.1f}" for started in sorted(_aps3.STARTED)))
