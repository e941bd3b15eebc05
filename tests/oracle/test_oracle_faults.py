"""Every deliberate fault in the oracle is noticed by its tests; ``faults.py`` prints the table."""

from __future__ import annotations

import pytest
from faults import FAULTS, ROOT, Fault, first_failure


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.module}: {fault.what}")
def test_a_fault_can_still_be_put_in_place(fault: Fault):
    text = (ROOT / "oracle" / f"{fault.module}.py").read_text(encoding="utf-8")
    assert text.count(fault.old) == 1
    compile(text.replace(fault.old, fault.new), fault.module, "exec")


def test_every_module_of_the_oracle_has_faults():
    modules = {path.stem for path in (ROOT / "oracle").glob("*.py")} - {"__init__"}
    assert {fault.module for fault in FAULTS} == modules


@pytest.mark.extended
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.module}: {fault.what}")
def test_a_fault_is_noticed(fault: Fault):
    assert first_failure(fault) is not None
