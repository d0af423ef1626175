"""Files of a commit to objects: plain manifests, or a chart that helm renders."""
