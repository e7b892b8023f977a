"""Check that an array or a tensor is clearly one picture, with a remedy in Python if it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.core.window import Window
from dipp.errors import DippError
from dipp.models.denoiser import require_pixels


def check_array(array: NDArray[Any], channels: int, tensor: bool, window: Window | None) -> None:
    """Raise if an array is not clearly one picture, with a remedy in Python.

    Args:
        array: The array, of any shape and dtype.
        channels: Number of channels of the denoiser.
        tensor: Whether the channels come first, (C, H, W) as in a tensor, and not last.
        window: Values that become black and white, without which only uint8 is accepted.
    """
    shape, kind = array.shape, array.dtype.kind
    layout = "(C, H, W)" if tensor else "(H, W, C)"
    problem = f"must be uint8 of shape {layout}, got {array.dtype} of shape {shape}"
    if len(shape) not in (2, 3) or not array.size:
        raise DippError("image", problem, "give one picture, or a list of pictures")
    if kind not in "ui":
        byte = "to(torch.uint8)" if tensor else "astype(np.uint8)"
        advice = {
            "f": f"values in [0, 1] become pixels by (255 * x).round().{byte}",
            "b": f"write 255 * x.{byte}",
        }
        raise DippError("image", problem, advice.get(kind, "convert it"))
    if array.dtype != np.uint8 and window is None:
        raise DippError("image", problem, "say which values become black and white, window=(LOW, HIGH)")
    require_pixels(*((shape[2], shape[1]) if tensor and len(shape) == 3 else (shape[1], shape[0])))
    first, last = shape[0], shape[-1]
    if len(shape) == 2 or (first if tensor else last) in (1, channels):
        return
    needed = "1 channel" if channels == 1 else f"1 or {channels} channels"
    stack = f"for a stack of grey pictures x[{':, None' if tensor else '..., None'}]"
    if (last if tensor else first) in (1, channels):
        turned = "permute(2, 0, 1)" if tensor else "transpose(1, 2, 0)"
        advice_of_shape = f"for one picture write x.{turned}, {stack}"
    elif (first if tensor else last) in (2, 3, 4):
        turned = "x.permute(1, 2, 0).numpy()" if tensor else "x"
        advice_of_shape = f"write PIL.Image.fromarray({turned}), which is converted"
    else:
        advice_of_shape = f"write {stack}"
    raise DippError("image", f"{problem}, and must have {needed}", advice_of_shape)
