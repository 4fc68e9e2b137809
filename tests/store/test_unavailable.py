"""What people read when a store cannot be used, or its URL names none: the reason, the remedy, and never a password."""

from pathlib import Path
from typing import Final

import pytest

from reconciler.errors import StoreUnavailableError, UsageError
from reconciler.store.database import parse_url, shown_url
from tests.store.test_database import opened

SECRET: Final = "s3cr3t-word"


class TestUnavailable:
    def test_a_server_that_does_not_answer(self) -> None:
        """Port 1 of this machine: nobody listens there."""
        with (
            opened(f"postgresql://someone:{SECRET}@127.0.0.1:1/runs") as database,
            pytest.raises(StoreUnavailableError, match=r"the store .*127\.0\.0\.1:1/runs cannot be used: .*") as told,
        ):
            database.tx(lambda tx: tx.now_us())

        assert SECRET not in str(told.value)
        assert "\n" not in str(told.value)

    def test_a_database_that_does_not_exist(self, postgres_url: str) -> None:
        url = parse_url(postgres_url).set(database="nowhere").render_as_string(hide_password=False)

        with (
            opened(url) as database,
            pytest.raises(StoreUnavailableError, match='database "nowhere" does not exist'),
        ):
            database.read(lambda tx: tx.now_us())

    @pytest.mark.parametrize("folder", ["missing", "a-file", "/proc"])
    def test_a_folder_that_cannot_hold_a_store(self, tmp_path: Path, folder: str) -> None:
        """`/proc` refuses new files to everybody, root too."""
        (tmp_path / "a-file").touch()
        file = tmp_path / folder / "store.db"

        with (
            opened(f"sqlite:///{file}") as database,
            pytest.raises(StoreUnavailableError, match=rf"the store sqlite:///{file} cannot be used: unable to open"),
        ):
            database.tx(lambda tx: tx.now_us())

    def test_a_file_that_is_no_store(self, tmp_path: Path) -> None:
        (tmp_path / "store.db").write_text("day;region;amount\n" * 1000)

        with (
            opened(f"sqlite:///{tmp_path / 'store.db'}") as database,
            pytest.raises(StoreUnavailableError, match="cannot be used: file is not a database"),
        ):
            database.tx(lambda tx: tx.now_us())


class TestUrls:
    @pytest.mark.parametrize("url", ["postgres://h/d", "postgresql://h/d", "postgresql+psycopg://h/d"])
    def test_every_usual_spelling_of_postgresql_means_the_same(self, url: str) -> None:
        assert parse_url(url).drivername == "postgresql+psycopg"

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "store.db",
            "sqlite",
            "mysql://h/d",
            "postgresql+asyncpg://h/d",
            "postgresql+nosuch://h/d",
            "postgresql://h:port/d",
        ],
    )
    def test_what_names_no_store_is_wrong_usage_and_the_text_says_what_to_write(self, url: str) -> None:
        with pytest.raises(UsageError, match=r"write sqlite:///path/to/file.db or postgresql://host/database"):
            parse_url(url)

    def test_a_password_among_the_options_is_hidden_like_any_other(self) -> None:
        url = parse_url(f"postgresql://someone@h/d?password={SECRET}&sslmode=require")

        assert url.password == SECRET
        assert SECRET not in shown_url(url)
        assert url.query == {"sslmode": "require"}

    def test_the_password_of_a_certificate_is_hidden(self) -> None:
        url = parse_url(f"postgresql://someone@h/d?sslpassword={SECRET}&sslmode=require")

        assert SECRET not in shown_url(url)
        assert "sslmode=require" in shown_url(url)

    @pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:"])
    def test_a_store_in_memory_is_no_store(self, url: str) -> None:
        with pytest.raises(UsageError, match=r"needs a file: write sqlite:///path/to/file.db"):
            parse_url(url)

    @pytest.mark.parametrize(
        "url",
        [
            "mysql://someone:{}@h/d",
            "postgresql://someone:{}@h:port/d",
            "postgresql//someone:{}@h/d",
            "postgresql:someone:{}@h/d",
            "someone:{}@h/d",
            "mysql://h/d?password={}",
            "postgresql://h:port/d?password={}",
        ],
    )
    def test_no_refusal_repeats_a_password(self, url: str) -> None:
        with pytest.raises(UsageError) as told:
            parse_url(url.format(SECRET))

        assert SECRET not in str(told.value)
