# Languages: the Python package.
EXTRA_DIST += %D%/python/pyproject.toml %D%/python/setup.py %D%/python/MANIFEST.in %D%/python/renga/__init__.py \
  %D%/python/renga/_batch.py %D%/python/renga/_graph.py %D%/python/renga/_library.py %D%/python/renga/_pipeline.py \
  %D%/python/renga/_plan.py %D%/python/renga/_prototypes.py %D%/python/renga/_runtime.py %D%/python/renga/_torch.py %D%/python/renga/_version.py \
  %D%/python/renga/py.typed
