"""The guarded function of docs/how-to/gate-another-loop.md: any loop may call it.

    python guarded_refund.py          # asks, and ends; once it is approved, it pays

tests/examples/test_guarded_refund.py runs it, and tests/test_docs.py holds the page's code to the
parts between the marks.
"""

from __future__ import annotations

from placet import ActionRefused, ApprovalRequired, Guarded, IdempotencyKey, InProgress, Placet


# Shown: a guarded function.
def guarded(placet: Placet) -> Guarded[str]:
    """Put a function behind the gate."""

    def again(order: str, cents: int) -> None:
        refund(order, cents)

    @placet.guard(
        session=lambda order, **_: f"order-{order}",
        surface="payments",
        effect="pays {cents} cents back for order {order}",
        on_decided=again,
    )
    def refund(order: str, cents: int, *, key: IdempotencyKey) -> str:
        """Pay a customer back."""
        with open("ledger.txt", "a", encoding="utf-8") as ledger:
            ledger.write(f"{key} {order} {cents}\n")
        return f"refunded {cents} cents for {order}"

    return refund


# Shown: a call of it.
def main() -> None:
    with Placet.open("sqlite:///placet.db") as placet:
        refund = guarded(placet)
        try:
            print(refund("A-42", 12900))
        except ApprovalRequired as needed:
            print("waits for", *needed.requests)
        except ActionRefused as refused:
            print(refused.code, refused.told)
        except InProgress as busy:  # Another action of the order goes first.
            print(busy)


# Shown: an app.
def app(placet: Placet) -> None:
    """Set the function up for a worker: `--app guarded_refund:app`."""
    guarded(placet)


# Shown until here.
if __name__ == "__main__":
    main()
