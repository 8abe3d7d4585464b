"""The operator: keeps jobs as `PystateJob` resources of Kubernetes say."""
