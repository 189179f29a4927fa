"""Import of the files of Marian (https://marian-nmt.github.io): Firefox Translations, OPUS-MT before its conversion.

Names, formats and computation follow marian-dev c9f287d (``src/common/binary.cpp``, ``src/models/transformer.h``). The
content of a file is not trusted: every size is compared with the length of the file before memory is allocated.
"""
