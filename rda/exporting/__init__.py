"""A trained model or a layer as a file that runs without this package: ONNX or torch.export."""
