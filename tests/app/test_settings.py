from __future__ import annotations

import pytest
from pydantic import ValidationError

from app.errors import SettingsError
from app.settings import Settings, load_settings


def test_defaults_need_no_environment() -> None:
    settings = load_settings({"PATH": "/bin", "HOME": "/root"})
    assert (settings.port, settings.model, settings.device, settings.deadline_s) == (8000, "auto", "auto", 30.0)


def test_values_come_from_variables_and_empty_ones_count_as_not_set() -> None:
    settings = load_settings(
        {"VERSO_PORT": "9000", "VERSO_THREADS": "", "VERSO_DEVICE": "cuda:1", "VERSO_MODEL": "x.pt"}
    )
    assert (settings.port, settings.threads, settings.device, settings.model) == (9000, None, "cuda:1", "x.pt")


def test_the_process_environment_does_not_slip_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERSO_PORT", "1234")
    assert load_settings({}).port == 8000


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("VERSO_PORT", "70000", "65535"),
        ("VERSO_PORT", "http", "integer"),
        ("VERSO_DEVICE", "tpu", "auto|cpu|cuda"),
        ("VERSO_THREADS", "0", "1"),
        ("VERSO_DEADLINE_S", "0", "0"),
        ("VERSO_DEADLINE_S", "nan", "86400"),
        ("VERSO_MAX_BEAM_SIZE", "65", "64"),
        ("VERSO_QUEUE_SENTENCES", "-1", "1"),
        ("VERSO_MODEL_SHA256", "abc", "64 hexadecimal digits"),
        ("VERSO_ROOT_PATH", "verso/", "start with /"),
        ("VERSO_LOG_LEVEL", "loud", "debug"),
        ("VERSO_MAX_BODY_BYTES", "1", "1000"),
    ],
)
def test_a_wrong_value_is_named_on_one_line_with_its_bound(variable: str, value: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings({variable: value})
    line = str(refused.value)
    assert "\n" not in line
    assert variable in line
    assert repr(value) in line
    assert said in line


def test_an_unknown_setting_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SettingsError, match=r"no setting VERSO_DEADLINE\. Did you mean VERSO_DEADLINE_S\?"):
        load_settings({"VERSO_DEADLINE": "3"})
    with pytest.raises(SettingsError, match="--help"):
        load_settings({"VERSO_QQQQQQQ": "3"})


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(SettingsError, match="VERSO_MAX_HYPOTHESES is 16, more than VERSO_MAX_BEAM_SIZE, which is 4"):
        load_settings({"VERSO_MAX_BEAM_SIZE": "4"})
    with pytest.raises(SettingsError, match="fit no batch"):
        load_settings({"VERSO_MAX_BATCH_ROWS": "8"})


def test_settings_cannot_be_changed_and_each_explains_itself() -> None:
    settings = load_settings({})
    with pytest.raises(ValidationError):
        settings.port = 1
    for name, field in Settings.model_fields.items():
        assert field.description, name
