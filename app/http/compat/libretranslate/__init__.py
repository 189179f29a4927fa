"""LibreTranslate's protocol at ``/libretranslate``, and at the root if the operator asks for it.

It does what LibreTranslate does where clients can tell, also where a native route would do otherwise: codes are its
own, a text whose language cannot be detected and one in the target language come back unchanged, and every error is
``{"error": "..."}``. ``api_key`` is the caller's key where there are keys, and else ignored.
"""

from app.http.compat.libretranslate.at_root import LibreTranslateAtRoot
from app.http.compat.libretranslate.errors import error_shape
from app.http.compat.libretranslate.openapi import describe_shared_path
from app.http.compat.libretranslate.paths import PREFIX
from app.http.compat.libretranslate.routes import router

__all__ = ["PREFIX", "LibreTranslateAtRoot", "describe_shared_path", "error_shape", "router"]
