"""``impl: glue``: the AWS Glue Data Catalog, on boto3.

It implements the Glue page of the Lance Namespace specification.
"""

from reconciler.backends.glue.backend import GlueBackend
from reconciler.backends.glue.config import GlueConfig

__all__ = ["GlueBackend", "GlueConfig"]
