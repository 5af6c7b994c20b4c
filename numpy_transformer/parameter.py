"""Parameter, a trainable array and its gradient; and unfilled, for models whose weights are read from a file."""

import contextlib
import contextvars
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .types import DTypeLike

LARGE = 2 ** 18                                 # entries from which an array is not copied or kept without need
SLACK = 2 ** 20                                 # numbers, and in thousandths parameters, that a model may have beyond a file
REMEDY = "use settings and weights that belong together"
LARGEST_TABLE = 2 ** 22                         # numbers of a table that no file holds, such as sinusoids


class Room:
    """How much may be built within unfilled(). What a file lacks by little is named better when its arrays are assigned."""

    def __init__(self, numbers: float, arrays: float) -> None:
        self.stored, self.arrays = numbers, arrays
        self.numbers_left, self.parameters_left = 2 * numbers + SLACK, 3 * arrays + SLACK / 1000

    def take(self, shape: tuple[int, ...]) -> None:
        """Takes the room of one parameter."""
        self.numbers_left -= math.prod(shape)
        self.parameters_left -= 1
        self.check()

    def check(self, numbers: int = 0) -> None:
        """Raises ValueError if there is no room for this many more numbers."""
        if self.parameters_left < 0:
            raise ValueError(f"the model has many more weights than the {self.arrays:,} arrays in the file; {REMEDY}")
        if self.numbers_left < numbers:
            raise ValueError(f"the model has many more numbers than the {self.stored:,} in the file; {REMEDY}")


UNFILLED: contextvars.ContextVar[Room | None] = contextvars.ContextVar("unfilled", default=None)


@contextlib.contextmanager
def unfilled(numbers: float = math.inf, arrays: float = math.inf) -> Iterator[None]:
    """Within this context new models have parameters without memory, and no initial weights are drawn.

    Each parameter has its shape and dtype, and reads as zeros, until load_state_dict or an assignment to `.data` fills
    it. With load_state_dict(state, copy=False), a model takes no more memory than the arrays in `state`:

        with unfilled():
            model = CausalLanguageModel(**sizes)
        model.load_state_dict(state, copy=False)

    Parameters: numbers, arrays : how many numbers, and how many arrays, the file holds that is to fill the model. Sizes
        that a file announces cost nothing then unless it also holds the weights
    Raises: ValueError as soon as a model is being built that has many more
    """
    token = UNFILLED.set(Room(numbers, arrays))
    try:
        yield
    finally:
        UNFILLED.reset(token)


def drawing() -> bool:
    """Returns False within unfilled(), where no initial weights are drawn."""
    return UNFILLED.get() is None


def check_room(numbers: int, allowed: int = 0) -> None:
    """Raises ValueError within unfilled() if the file holds too few weights for an array of this size.

    Parameters: numbers : of an array, a table or a list that is about to be made; allowed : as many are always allowed
    """
    room = UNFILLED.get()
    if room is not None and numbers > allowed:
        room.check(numbers)


def without_memory(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Returns a read-only array of zeros, all of which are one number in memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


class Parameter:
    """A trainable array and its gradient.

    Assigning to `.data` or `.grad` copies into the existing array. Whatever else holds that array (an optimizer, a
    tied layer, a replica) therefore sees the new values. Only `astype`, `move` and `take` replace the arrays.

    Parameters: data : array_like; it is copied, and integers become float64
    Attributes: `data`; `grad`, an array of the same shape and dtype, whose memory is taken when it is first needed, as
        zeros; `frozen`, True after nt.freeze; `held`, True once an optimizer holds state of this dtype for the
        parameter; `filled`, False as long as a parameter that was made within unfilled() has no values
    Raises: ValueError if an assigned array has another shape; TypeError if its dtype cannot be cast.
    """

    def __init__(self, data: Any) -> None:
        data = np.asarray(data)
        dtype = data.dtype if data.dtype.kind in "fc" else np.dtype(np.float64)
        room = UNFILLED.get()
        self.filled = room is None
        if room is not None:
            room.take(data.shape)
        self._data = data.astype(dtype) if self.filled else without_memory(data.shape, dtype)       # a copy
        self._grad: np.ndarray | None = None
        self._frozen = False
        self.held = False

    @property
    def data(self) -> np.ndarray:
        """The array. Assigning to it copies into it."""
        return self._data

    @data.setter
    def data(self, value: np.ndarray | float) -> None:
        if not self.filled:
            self._data = np.zeros(self._data.shape, self._data.dtype)
            self.filled = True
        copy_into(self._data, value)

    @property
    def grad(self) -> np.ndarray:
        """The gradient, of the shape and dtype of the data. Assigning to it copies into it."""
        if self._grad is not None:
            return self._grad
        grad = np.zeros(self._data.shape, self._data.dtype)
        if not self.frozen:
            self._grad = grad
        return grad

    @grad.setter
    def grad(self, value: np.ndarray | float) -> None:
        if value is self._grad and value is not None:       # Python also calls this for `p.grad += g`
            return
        if self.has_grad or np.ndim(value) or value != 0:
            copy_into(self.grad, value)

    @property
    def has_grad(self) -> bool:
        """Whether the gradient has memory. If not, it is zero."""
        return self._grad is not None

    @property
    def frozen(self) -> bool:
        """Whether training leaves the parameter as it is. Then `.grad` is zero, and whatever is added to it is lost."""
        return self._frozen

    @frozen.setter
    def frozen(self, value: bool) -> None:
        self._frozen = bool(value)
        if self._frozen:
            self._grad = None

    def astype(self, dtype: DTypeLike) -> None:
        """Converts the data and the gradient to `dtype`."""
        self._data = self._data.astype(dtype) if self.filled else without_memory(self._data.shape, dtype)
        if self._grad is not None:
            self._grad = self._grad.astype(dtype)

    def move(self, data: np.ndarray, grad: np.ndarray | None) -> None:
        """Replaces both arrays by others of the same shape, such as views of an optimizer's flat buffer."""
        self._data = data
        self._grad = grad
        self.filled = True

    def take(self, array: np.ndarray) -> None:
        """Takes over an array as `.data`: the array itself if it has the dtype and memory of its own, else a copy."""
        check_shape(self._data, array, scalars=False)
        if has_own_memory(array) and array.dtype == self._data.dtype:
            self._data = array
            self.filled = True
        else:
            self.data = array

    def twin(self) -> "Parameter":
        """Returns a Parameter that shares `.data` with this one and has its own gradient."""
        twin = Parameter(())
        twin.move(self._data, None)
        twin.filled = self.filled
        twin.frozen = self.frozen
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> "Parameter":
        copy = Parameter(self._data)            # no optimizer holds the copy, so `held` starts as False again
        copy.frozen = self.frozen
        if self._grad is not None:
            copy.grad = self._grad
        return copy

    def __repr__(self) -> str:
        frozen = ", frozen" if self.frozen else ""
        return f"Parameter(shape={self._data.shape}, dtype={self._data.dtype}{frozen})"


class Constant(Parameter):
    """A Parameter that no gradient changes: it is saved and loaded with the weights, and stays frozen.

    Parameters: data : array_like, as in Parameter
    """

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self._frozen = True

    @property
    def frozen(self) -> bool:
        """True, whatever nt.unfreeze is called with."""
        return True

    @frozen.setter
    def frozen(self, value: bool) -> None:
        pass


def forget_grad(parameter: Any) -> None:
    """Sets a gradient to zero. A large array of its own gives its memory back, until the gradient is needed again."""
    if not isinstance(parameter, Parameter):
        parameter.grad = 0
    elif parameter.has_grad:
        grad = parameter.grad
        if grad.size >= LARGE and grad.base is None:
            parameter.move(parameter.data, None)
        else:
            grad.fill(0)


def has_own_memory(array: np.ndarray) -> bool:
    """Returns True for a writable array in C order that is the whole of its memory, or a reshaped view of the whole."""
    owner = owner_of(array)
    whole = isinstance(owner, np.ndarray) and owner.base is None and owner.nbytes == array.nbytes
    return whole and array.flags.c_contiguous and array.flags.writeable


def owner_of(array: np.ndarray) -> Any:
    """Returns the object that has the memory of an array: the array itself, or the one that it is a view of."""
    return array if array.base is None else array.base


def copy_into(array: np.ndarray, value: np.ndarray | float) -> None:
    """Copies a value into an array. Raises ValueError for another shape, TypeError if the dtype cannot be cast."""
    if value is not array:
        check_shape(array, value)
        np.copyto(array, value, casting="same_kind")


def check_shape(array: np.ndarray, value: np.ndarray | float, scalars: bool = True) -> None:
    """Raises ValueError unless value has the shape of array. With scalars=True, a single number fits any shape."""
    if np.shape(value) != array.shape and not (scalars and np.ndim(value) == 0):
        raise ValueError(f"cannot assign an array of shape {np.shape(value)} to a parameter of "
                         f"shape {array.shape}; reshape it, or build the layer with other sizes")
