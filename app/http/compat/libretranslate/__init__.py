"""LibreTranslate's protocol at ``/libretranslate``, and at the root if the operator asks for it.

Clients see the behaviour of LibreTranslate, even where native routes differ: it has its own language codes, a text
whose language cannot be detected and one in the target language come back unchanged, and every error is
``{"error": "..."}``. ``api_key`` is the caller's key if the service has keys; otherwise it is ignored.
"""

from app.http.compat.libretranslate.at_root import LibreTranslateAtRoot
from app.http.compat.libretranslate.errors import error_shape
from app.http.compat.libretranslate.openapi import describe_shared_paths
from app.http.compat.libretranslate.paths import PREFIX
from app.http.compat.libretranslate.routes import router

__all__ = ["PREFIX", "LibreTranslateAtRoot", "describe_shared_paths", "error_shape", "router"]
