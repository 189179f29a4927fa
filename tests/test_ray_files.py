"""``deploy/ray``: the configurations fit the application; ``tests/test_ray.py`` has the schema of Ray Serve."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import yaml

from app.cluster.options import ClusterOptions, ingress_settings, read_settings
from tests.server import ROOT

DEPLOY = ROOT / "deploy" / "ray"


def serve_configuration() -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load((DEPLOY / "serve.yaml").read_text(encoding="utf-8"))
    return body


def manifest() -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load((DEPLOY / "kuberay.yaml").read_text(encoding="utf-8"))
    return body


CONFIGURATIONS = [serve_configuration(), yaml.safe_load(manifest()["spec"]["serveConfigV2"])]


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=["serve", "kuberay"])
def test_arguments_of_the_application_are_valid(configuration: dict[str, Any]) -> None:
    (application,) = configuration["applications"]
    options = ClusterOptions.model_validate(application["args"])
    ingress_settings(options, {})
    for name in options.engines:
        read_settings(options.engine(name), {})


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=["serve", "kuberay"])
def test_the_application_is_where_the_configuration_says(configuration: dict[str, Any]) -> None:
    (application,) = configuration["applications"]
    module, _, name = application["import_path"].partition(":")
    source = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    assert name in {item.name for item in ast.parse(source).body if isinstance(item, ast.FunctionDef)}


def test_the_largest_replica_fits_a_pod() -> None:
    cluster = manifest()["spec"]["rayClusterConfig"]
    (worker,) = cluster["workerGroupSpecs"]
    (container,) = worker["template"]["spec"]["containers"]
    options = ClusterOptions.model_validate(CONFIGURATIONS[1]["applications"][0]["args"])
    needed = max(options.engine(name).num_cpus for name in options.engines) + options.ingress_cpus
    assert float(container["resources"]["limits"]["cpu"]) >= needed


def test_pods_end_after_the_replicas_have_drained() -> None:
    (worker,) = manifest()["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    options = ClusterOptions.model_validate(CONFIGURATIONS[1]["applications"][0]["args"])
    drain_s = float(options.settings.get("VERSO_DRAIN_TIMEOUT_S", 30))
    assert worker["template"]["spec"]["terminationGracePeriodSeconds"] > drain_s


def test_usage_is_not_reported() -> None:
    cluster = manifest()["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert group["rayStartParams"]["disable-usage-stats"] == "true"
        (container,) = group["template"]["spec"]["containers"]
        assert {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"} in container["env"]
