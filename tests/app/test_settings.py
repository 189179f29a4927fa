from __future__ import annotations

from pathlib import Path
from typing import Any

import annotated_types
import pytest
from pydantic import ValidationError

from app.errors import SettingsError
from app.settings import Settings, load_settings


def test_defaults_apply_without_an_environment() -> None:
    settings = load_settings({"PATH": "/bin", "HOME": "/root"})
    assert (settings.port, settings.model, settings.device, settings.deadline_s) == (8000, "auto", "auto", 30.0)


def test_values_come_from_variables_and_empty_ones_count_as_not_set() -> None:
    settings = load_settings(
        {"VERSO_PORT": "9000", "VERSO_THREADS": "", "VERSO_DEVICE": "cuda:1", "VERSO_MODEL": "x.pt"}
    )
    assert (settings.port, settings.threads, settings.device, settings.model) == (9000, None, "cuda:1", "x.pt")


def test_the_process_environment_is_not_read_implicitly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERSO_PORT", "1234")
    assert load_settings({}).port == 8000


@pytest.mark.parametrize(
    ("variable", "value", "output"),
    [
        ("VERSO_PORT", "70000", "65535"),
        ("VERSO_PORT", "http", "it must be a whole number from 0 to 65535, such as 8000"),
        ("VERSO_DEVICE", "tpu", "must be auto, cpu, cuda or cuda:N"),
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
def test_an_invalid_value_is_named_on_one_line_with_its_bound(variable: str, value: str, output: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings({variable: value})
    line = str(refused.value)
    assert "\n" not in line
    assert variable in line
    assert repr(value) in line
    assert output in line


def test_an_unknown_setting_is_refused_with_the_closest_name() -> None:
    with pytest.raises(SettingsError, match=r"no setting VERSO_DEADLINE\. Did you mean VERSO_DEADLINE_S\?"):
        load_settings({"VERSO_DEADLINE": "3"})
    with pytest.raises(SettingsError, match="--help"):
        load_settings({"VERSO_QQQQQQQ": "3"})


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(SettingsError, match="VERSO_MAX_HYPOTHESES is 16, more than VERSO_MAX_BEAM_SIZE, which is 4"):
        load_settings({"VERSO_MAX_BEAM_SIZE": "4"})
    with pytest.raises(SettingsError, match="fit no batch"):
        load_settings({"VERSO_MAX_BATCH_ROWS": "8"})


def test_the_cache_and_coalescing_can_be_switched_off() -> None:
    settings = load_settings({"VERSO_CACHE_BYTES": "0", "VERSO_COALESCE": "off"})
    assert (settings.cache_bytes, settings.coalesce) == (0, "off")
    with pytest.raises(SettingsError, match="VERSO_COALESCE is 'yes'"):
        load_settings({"VERSO_COALESCE": "yes"})


def test_settings_are_frozen_and_each_has_a_description() -> None:
    settings = load_settings({})
    with pytest.raises(ValidationError):
        settings.port = 1
    for name, field in Settings.model_fields.items():
        assert field.description, name


def bounds() -> list[tuple[str, str, str]]:
    """For each bound of each number: the setting, a value just outside, and the bound as it is printed."""
    results: list[tuple[str, str, str]] = []
    for name, field in Settings.model_fields.items():
        for item in field.metadata:
            bound: Any
            outside: Any
            if isinstance(item, annotated_types.Ge):
                bound, outside = item.ge, item.ge - 1  # type: ignore[operator]
            elif isinstance(item, annotated_types.Gt):
                bound, outside = item.gt, item.gt
            elif isinstance(item, annotated_types.Le):
                bound, outside = item.le, item.le + 1  # type: ignore[operator]
            else:
                continue
            results.append((name, str(outside), f"{bound:g}" if bound == 0 else str(bound)))
    return results


@pytest.mark.parametrize(("name", "outside", "bound"), bounds())
def test_every_bound_is_enforced_and_named(name: str, outside: str, bound: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings({f"VERSO_{name.upper()}": outside})
    line = str(refused.value)
    assert "\n" not in line
    assert line.startswith(f"VERSO_{name.upper()} is {outside!r}; it must be ")
    assert bound in line.partition("must be")[2]


def test_every_number_is_bounded_on_both_sides() -> None:
    numbers = {name for name, field in Settings.model_fields.items() if field.annotation in (int, float, int | None)}
    assert numbers
    both = [name for name, _, _ in bounds()]
    assert {name for name in numbers if both.count(name) != 2} == set()


def test_several_invalid_values_are_named_on_one_line() -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings({"VERSO_PORT": "-1", "VERSO_MODEL": "x.pt", "VERSO_DEVICE": "gpu\nand more"})
    line = str(refused.value)
    assert "\n" not in line
    assert "VERSO_PORT is '-1'" in line
    assert "VERSO_DEVICE is " in line
    assert "VERSO_MODEL " not in line


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:0", "cuda:15"])
def test_device_names_of_torch_are_accepted(device: str) -> None:
    assert load_settings({"VERSO_DEVICE": device}).device == device


@pytest.mark.parametrize(
    ("path", "fine"), [("/verso", True), ("/a/b", True), ("/", False), ("a", False), ("/a/", False)]
)
def test_a_root_path_starts_with_a_slash_and_ends_without_one(path: str, fine: bool) -> None:
    if fine:
        assert load_settings({"VERSO_ROOT_PATH": path}).root_path == path
    else:
        with pytest.raises(SettingsError, match="VERSO_ROOT_PATH"):
            load_settings({"VERSO_ROOT_PATH": path})


def test_paths_and_digests_are_accepted() -> None:
    settings = load_settings({"VERSO_CACHE_DIR": "/var/cache/verso", "VERSO_MODEL_SHA256": "Ab" * 32})
    assert settings.cache_dir == Path("/var/cache/verso")
    assert settings.model_sha256 == "Ab" * 32
    for wrong in ("ab" * 31, "zz" * 32):
        with pytest.raises(SettingsError, match="VERSO_MODEL_SHA256"):
            load_settings({"VERSO_MODEL_SHA256": wrong})


TOKEN = "a-secret-of-the-operator"


def test_one_bundle_or_several_may_be_configured() -> None:
    assert load_settings({"VERSO_MODELS": "/bundles"}).models == "/bundles"
    assert load_settings({"VERSO_MODEL": "auto", "VERSO_MODELS": "a.pt,auto"}).models == "a.pt,auto"
    with pytest.raises(SettingsError, match=r"VERSO_MODEL is 'x\.pt' and VERSO_MODELS is '/bundles': set one of them"):
        load_settings({"VERSO_MODEL": "x.pt", "VERSO_MODELS": "/bundles"})


def test_a_digest_needs_a_single_bundle() -> None:
    with pytest.raises(SettingsError, match="VERSO_MODEL_SHA256 is the digest of one bundle"):
        load_settings({"VERSO_MODEL_SHA256": "ab" * 32, "VERSO_MODELS": "/bundles"})


@pytest.mark.parametrize("value", ["none", "127.0.0.1", "10.0.0.0/8, 2001:db8::/32,192.0.2.1"])
def test_trusted_proxies_are_addresses_and_networks(value: str) -> None:
    assert load_settings({"VERSO_TRUSTED_PROXIES": value}).trusted_proxies == value


@pytest.mark.parametrize(
    "value", ["*", "proxy.example", "10.0.0.1/8", "10.0.0.0/8,", "10.0.0.0/8 10.1.0.0/16", "none,::1"]
)
def test_other_proxies_are_refused(value: str) -> None:
    with pytest.raises(SettingsError, match=r"VERSO_TRUSTED_PROXIES is .* must be addresses and networks"):
        load_settings({"VERSO_TRUSTED_PROXIES": value})


def test_the_admin_token_is_kept_and_never_shown() -> None:
    settings = load_settings({"VERSO_ADMIN_TOKEN": TOKEN})
    assert settings.admin_token is not None
    assert settings.admin_token.get_secret_value() == TOKEN
    assert TOKEN not in repr(settings) and TOKEN not in str(settings) and TOKEN not in settings.model_dump_json()


@pytest.mark.parametrize(
    ("token", "output"),
    [
        ("short-secret", "at least 16 characters"),
        ("two words of a secret", "ASCII"),
        ("schlüssel-des-betreibers", "ASCII"),
    ],
)
def test_an_invalid_token_is_refused_without_being_repeated(token: str, output: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings({"VERSO_ADMIN_TOKEN": token, "VERSO_PORT": "-1"})
    assert "VERSO_ADMIN_TOKEN must " in str(refused.value)
    assert output in str(refused.value)
    assert token not in str(refused.value)
    assert token not in str(refused.value.__cause__)


def test_the_token_stays_out_of_errors_about_other_settings() -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings({"VERSO_ADMIN_TOKEN": TOKEN, "VERSO_MAX_BEAM_SIZE": "4"})
    assert TOKEN not in str(refused.value)
    assert TOKEN not in str(refused.value.__cause__)
