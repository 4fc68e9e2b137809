"""Crontabs of the Vixie family (Debian, cronie, the BSDs): read, written as definitions, and proved to fire alike.

`fields` and `read` know cron's rules, `scripts` and `write` ours; `prove` compares the two without either's code.
"""
