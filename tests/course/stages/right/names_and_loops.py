# === stage01_loss.py
"""Stage 1: softmax and cross-entropy."""

import numpy as np

from module import Module


def shift_logits_by_row_maximum(z):
    """Subtract the largest logit of each row, so that exp cannot overflow."""
    maximum_of_each_row = z.max(axis=-1, keepdims=True)
    shifted_logits = z - maximum_of_each_row
    return shifted_logits


def log_softmax(z):
    """log p_i = z_i - log(sum_j exp(z_j)) over the last axis."""
    shifted_logits = shift_logits_by_row_maximum(z)
    exponentials = np.exp(shifted_logits)
    sum_of_exponentials = exponentials.sum(axis=-1, keepdims=True)
    log_of_the_sum = np.log(sum_of_exponentials)
    return shifted_logits - log_of_the_sum


def softmax(z):
    """Probabilities p = exp(z) / sum of exp(z) over the last axis. Shape: z (..., V) -> p (the same)."""
    shifted_logits = shift_logits_by_row_maximum(z)
    exponentials = np.exp(shifted_logits)
    sum_of_exponentials = exponentials.sum(axis=-1, keepdims=True)
    probabilities = exponentials / sum_of_exponentials
    return probabilities


def softmax_backward(p, dp):
    """The gradient dz of the logits, from p = softmax(z) and dp. Shape: p and dp (..., V) -> dz (the same)."""
    # p = a / s  ->  da_direct = dp / s, ds = -sum(dp * a) / s^2 ; s = sum(a) -> da += ds ; a = exp(z) -> dz = a * da
    # with a / s = p the s's all cancel.
    dot_product_of_each_row = np.einsum("...v,...v->...", p, dp)
    dot_product_as_column = dot_product_of_each_row[..., np.newaxis]
    dz = p * (dp - dot_product_as_column)
    return dz


def one_hot_rows(class_ids, number_of_classes, dtype):
    """A matrix with a single 1 in each row. Shape: class_ids (N,) -> (N, number_of_classes)."""
    number_of_rows = class_ids.shape[0]
    one_hot = np.zeros((number_of_rows, number_of_classes), dtype=dtype)
    row_numbers = np.arange(number_of_rows)
    one_hot[row_numbers, class_ids] = 1
    return one_hot


class CrossEntropyLoss(Module):
    """The mean over all counted targets of -sum_v q_v log p_v, where p = softmax(logits).

    Parameters: label_smoothing : the e in q = (1 - e) onehot + e / V; ignore_id : targets with this id do not count, and
        with None all of them do
    Shape: logits (..., V), targets (...) integers -> a number; backward returns dlogits (..., V)
    """

    def __init__(self, label_smoothing=0.0, ignore_id=None):
        self.label_smoothing = label_smoothing
        self.ignore_id = ignore_id

    def forward(self, logits, targets):
        vocabulary_size = logits.shape[-1]
        logit_rows = logits.reshape(-1, vocabulary_size)
        flat_targets = np.asarray(targets).reshape(-1)

        if self.ignore_id is None:
            is_counted = np.ones(flat_targets.shape, dtype=bool)
        else:
            is_counted = flat_targets != self.ignore_id
        number_of_counted_targets = int(is_counted.sum())

        counted_logit_rows = logit_rows[is_counted]
        counted_targets = flat_targets[is_counted]
        counted_log_probabilities = log_softmax(counted_logit_rows)

        epsilon = float(self.label_smoothing)
        one_hot = one_hot_rows(counted_targets, vocabulary_size, logits.dtype)
        wanted_distribution = (1.0 - epsilon) * one_hot + epsilon / vocabulary_size

        loss_of_each_row = -np.einsum("nv,nv->n", wanted_distribution, counted_log_probabilities)
        loss = loss_of_each_row.sum() / number_of_counted_targets

        counted_probabilities = np.exp(counted_log_probabilities)
        self.remember(counted_probabilities, wanted_distribution, is_counted, logits.shape)
        return loss

    def backward(self):
        counted_probabilities, wanted_distribution, is_counted, shape_of_logits = self.recall()
        number_of_counted_targets = counted_probabilities.shape[0]
        vocabulary_size = shape_of_logits[-1]
        number_of_rows = is_counted.shape[0]

        # d/dz_j of -(sum_v q_v z_v) + (sum_v q_v) log(sum exp z)  =  -q_j + p_j
        counted_gradient_rows = (counted_probabilities - wanted_distribution) / number_of_counted_targets
        gradient_rows = np.zeros((number_of_rows, vocabulary_size), dtype=counted_probabilities.dtype)
        gradient_rows[is_counted] = counted_gradient_rows
        return gradient_rows.reshape(shape_of_logits)

# === stage02_linear.py
"""Stage 2: the linear layer and the embedding."""

import numpy as np

from module import Module, Parameter


def turn_into_rows(array):
    """Merge all leading axes into one. Shape: (..., width) -> (rows, width)."""
    width = array.shape[-1]
    return array.reshape(-1, width)


class Linear(Module):
    """y = x W + b. Shape: x (..., d_in) -> y (..., d_out); weight W (d_in, d_out), bias b (d_out,)."""

    def __init__(self, d_in, d_out, rng):
        self.weight = Parameter(rng.normal(0, 0.02, (d_in, d_out)))
        self.bias = Parameter(np.zeros(d_out))

    def forward(self, x):
        product_with_weight = x @ self.weight.data
        y = product_with_weight + self.bias.data
        self.remember(x)
        return y

    def backward(self, dy):
        x = self.recall()
        x_rows = turn_into_rows(x)
        dy_rows = turn_into_rows(dy)

        gradient_of_weight = x_rows.T @ dy_rows
        gradient_of_bias = np.einsum("nf->f", dy_rows)
        self.weight.grad += gradient_of_weight
        self.bias.grad += gradient_of_bias

        dx = dy @ self.weight.data.T
        return dx


class Embedding(Module):
    """The row of the table for each id. Shape: ids (...) integers -> x (..., d_model); weight (vocab_size, d_model).

    backward returns nothing, because ids have no gradient.
    """

    def __init__(self, vocab_size, d_model, rng):
        self.weight = Parameter(rng.normal(0, 0.02, (vocab_size, d_model)))

    def forward(self, ids):
        id_array = np.asarray(ids)
        picked_rows = self.weight.data[id_array]
        self.remember(id_array)
        return picked_rows

    def backward(self, dx):
        id_array = self.recall()
        flat_ids = id_array.reshape(-1)
        dx_rows = turn_into_rows(dx)
        np.add.at(self.weight.grad, flat_ids, dx_rows)

# === stage03_normalization.py
"""Stage 3: layer normalization."""

import numpy as np

from module import Module, Parameter


def mean_over_features(array):
    """The mean over the last axis, which stays as an axis of length 1."""
    return array.mean(axis=-1, keepdims=True)


def sum_over_all_leading_axes(array):
    """Shape: (..., features) -> (features,)."""
    number_of_features = array.shape[-1]
    array_rows = array.reshape(-1, number_of_features)
    return np.einsum("nd->d", array_rows)


class LayerNorm(Module):
    """y = gamma (x - mean) / sqrt(variance + eps) + beta, over the last axis.

    Shape: x (..., d_model) -> y (the same); gamma and beta (d_model,). The variance divides by d_model.
    """

    def __init__(self, d_model, eps=1e-5):
        self.eps = eps
        self.gamma = Parameter(np.ones(d_model))
        self.beta = Parameter(np.zeros(d_model))

    def forward(self, x):
        mean_of_each_row = mean_over_features(x)
        centered_input = x - mean_of_each_row
        squared_centered_input = centered_input * centered_input
        variance_of_each_row = mean_over_features(squared_centered_input)
        standard_deviation_of_each_row = np.sqrt(variance_of_each_row + self.eps)
        reciprocal_of_deviation = 1 / standard_deviation_of_each_row
        normalized_input = centered_input * reciprocal_of_deviation
        y = self.gamma.data * normalized_input + self.beta.data
        self.remember(centered_input, normalized_input, reciprocal_of_deviation)
        return y

    def backward(self, dy):
        centered_input, normalized_input, reciprocal_of_deviation = self.recall()
        number_of_features = dy.shape[-1]

        # y = gamma * normalized + beta
        self.gamma.grad += sum_over_all_leading_axes(dy * normalized_input)
        self.beta.grad += sum_over_all_leading_axes(dy)
        gradient_of_normalized = dy * self.gamma.data

        # normalized = centered * r
        gradient_of_centered = gradient_of_normalized * reciprocal_of_deviation
        gradient_of_r = (gradient_of_normalized * centered_input).sum(axis=-1, keepdims=True)

        # r = (variance + eps)^(-1/2)
        gradient_of_variance = gradient_of_r * (-(reciprocal_of_deviation ** 3) / 2)

        # variance = mean(centered * centered)
        gradient_of_centered = gradient_of_centered + gradient_of_variance * (2 * centered_input / number_of_features)

        # centered = x - mean
        gradient_of_mean = -gradient_of_centered.sum(axis=-1, keepdims=True)

        # mean = mean(x), and x itself
        dx = gradient_of_centered + gradient_of_mean / number_of_features
        return dx

# === stage04_feed_forward.py
"""Stage 4: the activation GELU and the feed-forward layer."""

import math

import numpy as np

from module import Module
from stage02_linear import Linear

C = math.sqrt(2 / math.pi)                      # of GELU's tanh form
CUBIC = 0.044715


class GELU(Module):
    """y = x (1 + tanh(u)) / 2, where u = C (x + CUBIC x^3). Shape: x (any) -> y (the same)."""

    def forward(self, x):
        x_cubed = x * x * x
        argument_of_tanh = C * (x + CUBIC * x_cubed)
        value_of_tanh = np.tanh(argument_of_tanh)
        y = x * (1 + value_of_tanh) / 2
        self.remember(x, value_of_tanh)
        return y

    def backward(self, dy):
        x, value_of_tanh = self.recall()
        x_squared = x * x
        derivative_of_tanh = 1 - value_of_tanh * value_of_tanh
        derivative_of_argument = C * (1 + 3 * CUBIC * x_squared)
        first_term = (1 + value_of_tanh) / 2
        second_term = x * derivative_of_tanh * derivative_of_argument / 2
        derivative_of_gelu = first_term + second_term
        return dy * derivative_of_gelu


class FeedForward(Module):
    """y = down(GELU(up(x))): two linear layers, d_model -> d_ff -> d_model. Shape: x (..., d_model) -> y (the same)."""

    def __init__(self, d_model, d_ff, rng):
        self.up = Linear(d_model, d_ff, rng)
        self.activation = GELU()
        self.down = Linear(d_ff, d_model, rng)

    def forward(self, x):
        hidden_before_activation = self.up(x)
        hidden_after_activation = self.activation(hidden_before_activation)
        y = self.down(hidden_after_activation)
        return y

    def backward(self, dy):
        gradient_after_activation = self.down.backward(dy)
        gradient_before_activation = self.activation.backward(gradient_after_activation)
        dx = self.up.backward(gradient_before_activation)
        return dx

# === stage05_attention.py
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    visible = np.zeros((T, T), dtype=bool)
    for query_position in range(T):
        number_of_visible_keys = query_position + 1
        visible[query_position, :number_of_visible_keys] = True
    return visible


def hide_scores(scores, mask):
    """Replaces the scores that the mask hides by -infinity."""
    if mask is None:
        return scores
    return np.where(mask, scores, -math.inf)


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        size_of_head = q.shape[-1]
        scale = 1.0 / math.sqrt(size_of_head)

        scores = np.einsum("...ti,...si->...ts", q, k) * scale
        visible_scores = hide_scores(scores, mask)
        attention_weights = softmax(visible_scores)
        y = np.einsum("...ts,...se->...te", attention_weights, v)

        self.weights = attention_weights
        self.remember(q, k, v, attention_weights)
        return y

    def backward(self, dy):
        q, k, v, attention_weights = self.recall()
        size_of_head = q.shape[-1]
        scale = 1.0 / math.sqrt(size_of_head)

        # y = p v
        gradient_of_weights = np.einsum("...te,...se->...ts", dy, v)
        dv = np.einsum("...ts,...te->...se", attention_weights, dy)

        # p = softmax(scores)
        gradient_of_scores = softmax_backward(attention_weights, gradient_of_weights)

        # scores = q k^T * scale
        gradient_of_products = gradient_of_scores * scale
        dq = np.einsum("...ts,...si->...ti", gradient_of_products, k)
        dk = np.einsum("...ts,...ti->...si", gradient_of_products, q)
        return dq, dk, dv

# === stage06_heads.py
"""Stage 6: attention with many heads."""

import numpy as np

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    number_of_features = x.shape[-1]
    size_of_head = number_of_features // num_heads
    list_of_heads = []
    for head_number in range(num_heads):
        first_feature = head_number * size_of_head
        end_of_features = first_feature + size_of_head
        features_of_this_head = x[..., first_feature:end_of_features]
        list_of_heads.append(features_of_this_head)
    return np.stack(list_of_heads, axis=-3)


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    number_of_heads = x.shape[-3]
    list_of_heads = []
    for head_number in range(number_of_heads):
        features_of_this_head = x[..., head_number, :, :]
        list_of_heads.append(features_of_this_head)
    return np.concatenate(list_of_heads, axis=-1)


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        all_queries = self.query(x)
        all_keys = self.key(memory)
        all_values = self.value(memory)

        queries_of_heads = split_heads(all_queries, self.num_heads)
        keys_of_heads = split_heads(all_keys, self.num_heads)
        values_of_heads = split_heads(all_values, self.num_heads)

        results_of_heads = self.attention(queries_of_heads, keys_of_heads, values_of_heads, mask)
        merged_results = merge_heads(results_of_heads)
        y = self.output(merged_results)
        return y

    def backward(self, dy):
        gradient_of_merged_results = self.output.backward(dy)
        gradient_of_results_of_heads = split_heads(gradient_of_merged_results, self.num_heads)

        gradients_of_heads = self.attention.backward(gradient_of_results_of_heads)
        gradient_of_queries, gradient_of_keys, gradient_of_values = [merge_heads(each) for each in gradients_of_heads]

        dmemory_through_values = self.value.backward(gradient_of_values)
        dmemory_through_keys = self.key.backward(gradient_of_keys)
        dx = self.query.backward(gradient_of_queries)
        dmemory = dmemory_through_keys + dmemory_through_values
        return dx, dmemory

# === stage07_block.py
"""Stage 7: the block, with its residual connections."""

from module import Module
from stage03_normalization import LayerNorm
from stage04_feed_forward import FeedForward
from stage06_heads import MultiHeadAttention


class Block(Module):
    """x + attention(norm1(x)), and then x + feed_forward(norm2(x)).

    Shape: x (..., T, d_model), mask as in MultiHeadAttention -> y (..., T, d_model); backward returns dx.
    """

    def __init__(self, d_model, num_heads, d_ff, rng):
        self.norm1 = LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, num_heads, rng)
        self.norm2 = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff, rng)

    def forward(self, x, mask=None):
        normalized_input = self.norm1(x)
        result_of_attention = self.attention(normalized_input, normalized_input, mask)
        after_attention = x + result_of_attention

        normalized_after_attention = self.norm2(after_attention)
        result_of_feed_forward = self.feed_forward(normalized_after_attention)
        y = after_attention + result_of_feed_forward
        return y

    def backward(self, dy):
        gradient_of_second_norm_output = self.feed_forward.backward(dy)
        gradient_through_second_branch = self.norm2.backward(gradient_of_second_norm_output)
        gradient_after_attention = dy + gradient_through_second_branch

        gradient_as_queries, gradient_as_memory = self.attention.backward(gradient_after_attention)
        gradient_of_first_norm_output = gradient_as_queries + gradient_as_memory
        gradient_through_first_branch = self.norm1.backward(gradient_of_first_norm_output)
        dx = gradient_after_attention + gradient_through_first_branch
        return dx

# === stage08_model.py
"""Stage 8: the language model, whose output layer is the transposed embedding."""

import numpy as np

from module import Module, Parameter
from stage02_linear import Embedding
from stage03_normalization import LayerNorm
from stage05_attention import causal_mask
from stage07_block import Block


class LanguageModel(Module):
    """Logits of the next token at every position: norm(blocks(embedding + positions)) E^T.

    Shape: ids (..., T) integers, T <= max_len -> logits (..., T, vocab_size); positions (max_len, d_model). The embedding's
        table E is used twice, so its gradient has two parts. backward returns nothing.
    """

    def __init__(self, vocab_size, max_len, d_model, num_heads, d_ff, num_layers, rng):
        self.embedding = Embedding(vocab_size, d_model, rng)
        self.positions = Parameter(rng.normal(0, 0.02, (max_len, d_model)))
        self.blocks = [Block(d_model, num_heads, d_ff, rng) for _ in range(num_layers)]
        self.norm = LayerNorm(d_model)

    def forward(self, ids):
        length_of_text = ids.shape[-1]
        mask = causal_mask(length_of_text)

        token_vectors = self.embedding(ids)
        position_vectors = self.positions.data[:length_of_text]
        features = token_vectors + position_vectors
        for block in self.blocks:
            features = block(features, mask)
        normalized_features = self.norm(features)

        embedding_table = self.embedding.weight.data
        logits = np.einsum("...td,vd->...tv", normalized_features, embedding_table)
        self.remember(normalized_features)
        return logits

    def backward(self, dlogits):
        normalized_features = self.recall()
        embedding_table = self.embedding.weight.data
        vocabulary_size, number_of_features = embedding_table.shape
        length_of_text = normalized_features.shape[-2]

        # logits = h E^T
        dlogits_rows = dlogits.reshape(-1, vocabulary_size)
        normalized_rows = normalized_features.reshape(-1, number_of_features)
        gradient_of_table_as_output = np.einsum("nv,nd->vd", dlogits_rows, normalized_rows)
        self.embedding.weight.grad += gradient_of_table_as_output
        gradient_of_normalized = np.einsum("...tv,vd->...td", dlogits, embedding_table)

        gradient_of_features = self.norm.backward(gradient_of_normalized)
        for block in reversed(self.blocks):
            gradient_of_features = block.backward(gradient_of_features)

        # x = E[ids] + positions
        gradient_of_each_text = gradient_of_features.reshape(-1, length_of_text, number_of_features)
        gradient_of_used_positions = gradient_of_each_text.sum(axis=0)
        self.positions.grad[:length_of_text] += gradient_of_used_positions
        self.embedding.backward(gradient_of_features)

# === stage09_training.py
"""Stage 9: AdamW, clipping, the learning rate, and the training loop."""

import math

import numpy as np


class AdamW:
    """Adam with decoupled weight decay.

    m and v are running means of g and g^2; with the step t from 1 on, m / (1 - b1^t) and v / (1 - b2^t) are unbiased, and
    data -= lr weight_decay data,   data -= lr m_hat / (sqrt(v_hat) + eps).

    Parameters: parameters : list of Parameter; lr; betas : (b1, b2); eps; weight_decay
    """

    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.parameters = list(parameters)
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.m = [np.zeros_like(parameter.data) for parameter in self.parameters]
        self.v = [np.zeros_like(parameter.data) for parameter in self.parameters]
        self.t = 0

    def step(self):
        """Changes the data of every parameter in place, from its grad. Does not change the gradients."""
        self.t += 1
        beta_of_mean, beta_of_squares = self.betas
        current_rate = float(self.lr)
        correction_of_mean = 1 - beta_of_mean ** self.t
        correction_of_squares = 1 - beta_of_squares ** self.t

        for parameter_number, parameter in enumerate(self.parameters):
            gradient = parameter.grad
            squared_gradient = gradient * gradient

            old_running_mean = self.m[parameter_number]
            old_running_squares = self.v[parameter_number]
            new_running_mean = beta_of_mean * old_running_mean + (1 - beta_of_mean) * gradient
            new_running_squares = beta_of_squares * old_running_squares + (1 - beta_of_squares) * squared_gradient
            self.m[parameter_number] = new_running_mean
            self.v[parameter_number] = new_running_squares

            corrected_mean = new_running_mean / correction_of_mean
            corrected_squares = new_running_squares / correction_of_squares

            decay_part = current_rate * self.weight_decay * parameter.data
            adam_part = current_rate * corrected_mean / (np.sqrt(corrected_squares) + self.eps)
            parameter.data -= decay_part + adam_part


def joint_norm(parameters):
    """The square root of the sum of the squares of all entries of all gradients, as a Python number."""
    sum_of_squares = 0.0
    for parameter in parameters:
        gradient = parameter.grad
        sum_of_squares += float(np.sum(gradient * gradient))
    return math.sqrt(sum_of_squares)


def clip_gradients(parameters, max_norm):
    """Scales all gradients by one factor, in place, if their joint norm is above max_norm."""
    norm_of_all_gradients = joint_norm(parameters)
    if norm_of_all_gradients > max_norm:
        common_factor = float(max_norm) / norm_of_all_gradients
        for parameter in parameters:
            parameter.grad *= common_factor


def learning_rate(n, d_model, warmup):
    """The rate of step n, from 1 on: d_model^-0.5 min(n^-0.5, n warmup^-1.5)."""
    size_factor = 1 / math.sqrt(d_model)
    falling_part = 1 / math.sqrt(n)
    growing_part = n / (warmup * math.sqrt(warmup))
    return size_factor * min(falling_part, growing_part)


def set_gradients_to_zero(parameters):
    for parameter in parameters:
        parameter.grad[...] = 0


def train(model, loss, optimizer, batches, rate, max_norm=1.0):
    """One step for each batch (inputs..., targets): zero the gradients, forward, backward, clip, set lr, step.

    Parameters: model, loss : Modules; optimizer : AdamW; batches : list of tuples of arrays, whose last one is the targets;
        rate : function of n, the number of the step from 1 on
    Returns: the list of the losses, each of before its step
    """
    list_of_losses = []
    for step_number, batch in enumerate(batches, start=1):
        inputs_of_model = batch[:-1]
        targets = batch[-1]

        set_gradients_to_zero(optimizer.parameters)
        logits = model(*inputs_of_model)
        loss_of_this_batch = loss(logits, targets)
        list_of_losses.append(loss_of_this_batch)

        gradient_of_logits = loss.backward()
        model.backward(gradient_of_logits)

        clip_gradients(optimizer.parameters, max_norm)
        optimizer.lr = rate(step_number)
        optimizer.step()
    return list_of_losses

# === stage10_sampling.py
"""Stage 10: text from the model, with a key-value cache."""

import math

import numpy as np

from stage01_loss import softmax
from stage06_heads import merge_heads, split_heads


def keep_most_likely(probabilities, order_of_likelihood, number_to_keep):
    """Sets all but the most likely probabilities to 0, and makes the others sum to 1."""
    kept_token_ids = order_of_likelihood[:number_to_keep]
    kept_probabilities = np.zeros_like(probabilities)
    kept_probabilities[kept_token_ids] = probabilities[kept_token_ids]
    return kept_probabilities / kept_probabilities.sum()


def next_probabilities(logits, temperature=1.0, top_k=None):
    """softmax(logits / temperature) (V,) of the top_k most likely tokens; temperature 0: the most likely one has 1."""
    if temperature == 0:
        one_hot = np.zeros_like(logits)
        most_likely_token = int(np.argmax(logits))
        one_hot[most_likely_token] = 1
        return one_hot

    logits_below_zero = logits - logits.max()
    logits_with_temperature = logits_below_zero / float(temperature)
    probabilities = softmax(logits_with_temperature)
    if top_k is None:
        return probabilities
    order_of_likelihood = np.argsort(-logits, kind="stable")
    return keep_most_likely(probabilities, order_of_likelihood, top_k)


class KeyValueCache:
    """The keys and values of all tokens so far: one pair (..., num_heads, length, d) for each attention layer."""

    def __init__(self, num_layers):
        self.pairs = [None] * num_layers
        self.length = 0


def mask_for_new_tokens(number_of_cached_tokens, number_of_new_tokens):
    """(T, S) booleans: new token t may see the keys 0 to C + t."""
    number_of_keys = number_of_cached_tokens + number_of_new_tokens
    mask = np.zeros((number_of_new_tokens, number_of_keys), dtype=bool)
    for new_token in range(number_of_new_tokens):
        last_visible_key = number_of_cached_tokens + new_token
        mask[new_token, :last_visible_key + 1] = True
    return mask


def cached_attention(attention, x, cache, i):
    """What MultiHeadAttention returns for the new tokens x (..., T, d_model) of a text, whose earlier ones are in the cache.

    Adds the keys and values of x to the pair of layer i; cache.length does not change here. Each token sees those before
    it, and itself.
    """
    number_of_heads = attention.num_heads
    new_queries = split_heads(attention.query(x), number_of_heads)
    new_keys = split_heads(attention.key(x), number_of_heads)
    new_values = split_heads(attention.value(x), number_of_heads)

    if cache.pairs[i] is None:
        number_of_cached_tokens = 0
        all_keys = new_keys
        all_values = new_values
    else:
        cached_keys, cached_values = cache.pairs[i]
        number_of_cached_tokens = cached_keys.shape[-2]
        all_keys = np.concatenate([cached_keys, new_keys], axis=-2)
        all_values = np.concatenate([cached_values, new_values], axis=-2)
    cache.pairs[i] = (all_keys, all_values)

    number_of_new_tokens = x.shape[-2]
    mask = mask_for_new_tokens(number_of_cached_tokens, number_of_new_tokens)
    results_of_heads = attention.attention(new_queries, all_keys, all_values, mask)
    merged_results = merge_heads(results_of_heads)
    return attention.output(merged_results)


def cached_forward(model, ids, cache):
    """The logits (..., T, vocab_size) of new tokens ids (..., T), whose earlier ones are in the cache."""
    number_of_new_tokens = ids.shape[-1]
    first_position = cache.length
    end_of_positions = first_position + number_of_new_tokens

    token_vectors = model.embedding(ids)
    position_vectors = model.positions.data[first_position:end_of_positions]
    features = token_vectors + position_vectors
    for block_number, block in enumerate(model.blocks):
        normalized_features = block.norm1(features)
        result_of_attention = cached_attention(block.attention, normalized_features, cache, block_number)
        features = features + result_of_attention
        normalized_again = block.norm2(features)
        result_of_feed_forward = block.feed_forward(normalized_again)
        features = features + result_of_feed_forward
    last_features = model.norm(features)

    embedding_table = model.embedding.weight.data
    logits = np.einsum("...td,vd->...tv", last_features, embedding_table)
    cache.length = end_of_positions
    model.forget()
    return logits


def choose_token(logits_of_last_token, temperature, top_k, rng):
    """The id of the next token, as a Python integer."""
    probabilities = next_probabilities(logits_of_last_token, temperature, top_k)
    if temperature == 0:
        return int(np.argmax(probabilities))
    exact_probabilities = probabilities.astype(np.float64)
    exact_probabilities = exact_probabilities / exact_probabilities.sum()
    vocabulary_size = exact_probabilities.shape[0]
    return int(rng.choice(vocabulary_size, p=exact_probabilities))


def generate(model, ids, count, temperature=1.0, top_k=None, rng=None):
    """The list of prompt ids followed by `count` new ones; the model's max_len is the longest that they can be together."""
    text_so_far = [int(token_id) for token_id in ids]
    number_of_layers = len(model.blocks)
    cache = KeyValueCache(number_of_layers)
    ids_for_next_call = np.array(text_so_far)
    for _ in range(count):
        logits_of_new_tokens = cached_forward(model, ids_for_next_call, cache)
        logits_of_last_token = logits_of_new_tokens[-1]
        next_token = choose_token(logits_of_last_token, temperature, top_k, rng)
        text_so_far.append(next_token)
        ids_for_next_call = np.array([next_token])
    return text_so_far

# === stage11_gpt2.py
"""Stage 11: the weights and the tokenizer of GPT-2, from a folder of Hugging Face."""

import json
import re
from pathlib import Path

import numpy as np

from stage08_model import LanguageModel

WORDS = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?\d+| ?(?:[^\w\s]|_)+|\s+(?!\S)|\s+")
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


def read_safetensors(path):
    """{name: array} of a file: 8 bytes with the length n of the header, n bytes of JSON, then the arrays' bytes."""
    all_bytes = Path(path).read_bytes()
    size_of_length_field = 8
    length_of_header = int.from_bytes(all_bytes[:size_of_length_field], "little")
    end_of_header = size_of_length_field + length_of_header
    header_text = all_bytes[size_of_length_field:end_of_header].decode("utf-8")
    header = json.loads(header_text)
    bytes_of_arrays = all_bytes[end_of_header:]

    arrays_by_name = {}
    for name, description in header.items():
        if name == "__metadata__":
            continue
        start_of_array, end_of_array = description["data_offsets"]
        shape_of_array = tuple(description["shape"])
        type_of_array = np.dtype(TYPES[description["dtype"]])
        bytes_of_this_array = bytes_of_arrays[start_of_array:end_of_array]
        flat_array = np.frombuffer(bytes_of_this_array, dtype=type_of_array)
        arrays_by_name[name] = flat_array.reshape(shape_of_array).copy()
    return arrays_by_name


def assign(parameter, array):
    """Puts a stored array in the place of a parameter's data, with a gradient of the same kind."""
    parameter.data = np.ascontiguousarray(array)
    parameter.grad = np.zeros_like(parameter.data)


def assign_linear(linear, arrays, name):
    assign(linear.weight, arrays[f"{name}.weight"])
    assign(linear.bias, arrays[f"{name}.bias"])


def assign_norm(norm, arrays, name, eps):
    assign(norm.gamma, arrays[f"{name}.weight"])
    assign(norm.beta, arrays[f"{name}.bias"])
    norm.eps = eps


def assign_queries_keys_values(attention, arrays, name):
    three_weights = np.split(arrays[f"{name}.weight"], 3, axis=-1)
    three_biases = np.split(arrays[f"{name}.bias"], 3, axis=-1)
    three_linears = [attention.query, attention.key, attention.value]
    for linear, weight, bias in zip(three_linears, three_weights, three_biases):
        assign(linear.weight, weight)
        assign(linear.bias, bias)


def load_gpt2(folder):
    """A LanguageModel with the sizes of config.json and the weights of model.safetensors."""
    config_text = (Path(folder) / "config.json").read_text(encoding="utf-8")
    config = json.loads(config_text)
    size_of_model = config["n_embd"]
    size_of_feed_forward = config.get("n_inner")
    if size_of_feed_forward is None:
        size_of_feed_forward = 4 * size_of_model

    model = LanguageModel(
        vocab_size=config["vocab_size"],
        max_len=config["n_positions"],
        d_model=size_of_model,
        num_heads=config["n_head"],
        d_ff=size_of_feed_forward,
        num_layers=config["n_layer"],
        rng=np.random.default_rng(0),
    )

    stored_arrays = read_safetensors(Path(folder) / "model.safetensors")
    arrays = {}
    for long_name, array in stored_arrays.items():
        short_name = long_name.removeprefix("transformer.")
        arrays[short_name] = array

    eps = config["layer_norm_epsilon"]
    assign(model.embedding.weight, arrays["wte.weight"])
    assign(model.positions, arrays["wpe.weight"])
    for block_number, block in enumerate(model.blocks):
        block_name = f"h.{block_number}"
        assign_norm(block.norm1, arrays, f"{block_name}.ln_1", eps)
        assign_norm(block.norm2, arrays, f"{block_name}.ln_2", eps)
        assign_queries_keys_values(block.attention, arrays, f"{block_name}.attn.c_attn")
        assign_linear(block.attention.output, arrays, f"{block_name}.attn.c_proj")
        assign_linear(block.feed_forward.up, arrays, f"{block_name}.mlp.c_fc")
        assign_linear(block.feed_forward.down, arrays, f"{block_name}.mlp.c_proj")
    assign_norm(model.norm, arrays, "ln_f", eps)
    return model


def byte_letters():
    """{byte: character}: GPT-2 writes every byte as a visible character; the others become those from 256 on."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def join_everywhere(parts, pair):
    """Joins the pair of neighbors wherever it occurs, from left to right."""
    joined_parts = []
    place = 0
    while place < len(parts):
        is_the_pair = place + 1 < len(parts) and (parts[place], parts[place + 1]) == pair
        if is_the_pair:
            joined_parts.append(parts[place] + parts[place + 1])
            place += 2
        else:
            joined_parts.append(parts[place])
            place += 1
    return joined_parts


class BytePairEncoding:
    """GPT-2's tokenizer: words, written as the letters of their bytes, are merged pair by pair.

    Parameters: folder : with vocab.json, {token: id}, and merges.txt, one pair in each line, the most important first
    """

    def __init__(self, folder):
        self.ids = json.loads((Path(folder) / "vocab.json").read_text(encoding="utf-8"))
        self.tokens = {number: token for token, number in self.ids.items()}
        lines = (Path(folder) / "merges.txt").read_text(encoding="utf-8").split("\n")
        pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
        self.rank = {pair: n for n, pair in enumerate(pairs)}
        self.letters = byte_letters()
        self.bytes = {letter: byte for byte, letter in self.letters.items()}

    def merge(self, word):
        """The tokens of a word: of all neighbors, the pair of the lowest rank is merged everywhere, again and again."""
        parts = list(word)
        while len(parts) > 1:
            pairs_of_neighbors = list(zip(parts[:-1], parts[1:]))
            known_pairs = [pair for pair in pairs_of_neighbors if pair in self.rank]
            if not known_pairs:
                break
            best_pair = min(known_pairs, key=lambda pair: self.rank[pair])
            parts = join_everywhere(parts, best_pair)
        return parts

    def encode(self, text):
        """The list of ids of a text."""
        list_of_ids = []
        for word in WORDS.findall(text):
            bytes_of_word = word.encode("utf-8")
            visible_word = "".join(self.letters[byte] for byte in bytes_of_word)
            for token in self.merge(visible_word):
                list_of_ids.append(self.ids[token])
        return list_of_ids

    def decode(self, ids):
        """The text of a list of ids."""
        visible_text = "".join(self.tokens[int(number)] for number in ids)
        bytes_of_text = bytes(self.bytes[letter] for letter in visible_text)
        return bytes_of_text.decode("utf-8", "replace")

# === stage12_translation.py
"""Stage 12: encoder, cross-attention, and beam search."""

import numpy as np

from module import Module, Parameter
from stage01_loss import log_softmax
from stage02_linear import Embedding, Linear
from stage03_normalization import LayerNorm
from stage04_feed_forward import FeedForward
from stage05_attention import causal_mask
from stage06_heads import MultiHeadAttention
from stage07_block import Block


class DecoderBlock(Module):
    """A Block with attention to the encoder's output, memory, between its two parts: each is x + f(norm(x)).

    Shape: x (..., T, d_model), memory (..., S, d_model), mask and memory_mask as in MultiHeadAttention
        -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, d_ff, rng):
        self.norm1 = LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, num_heads, rng)
        self.norm2 = LayerNorm(d_model)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, rng)
        self.norm3 = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff, rng)

    def forward(self, x, memory, mask=None, memory_mask=None):
        normalized_input = self.norm1(x)
        result_of_self_attention = self.attention(normalized_input, normalized_input, mask)
        after_self_attention = x + result_of_self_attention

        normalized_queries = self.norm2(after_self_attention)
        result_of_cross_attention = self.cross_attention(normalized_queries, memory, memory_mask)
        after_cross_attention = after_self_attention + result_of_cross_attention

        normalized_for_feed_forward = self.norm3(after_cross_attention)
        result_of_feed_forward = self.feed_forward(normalized_for_feed_forward)
        y = after_cross_attention + result_of_feed_forward
        return y

    def backward(self, dy):
        gradient_of_third_norm_output = self.feed_forward.backward(dy)
        gradient_after_cross_attention = dy + self.norm3.backward(gradient_of_third_norm_output)

        gradient_of_second_norm_output, dmemory = self.cross_attention.backward(gradient_after_cross_attention)
        gradient_through_second_branch = self.norm2.backward(gradient_of_second_norm_output)
        gradient_after_self_attention = gradient_after_cross_attention + gradient_through_second_branch

        gradient_as_queries, gradient_as_memory = self.attention.backward(gradient_after_self_attention)
        gradient_of_first_norm_output = gradient_as_queries + gradient_as_memory
        gradient_through_first_branch = self.norm1.backward(gradient_of_first_norm_output)
        dx = gradient_after_self_attention + gradient_through_first_branch
        return dx, dmemory


def add_to_used_positions(positions, gradient_of_features):
    """The same row was added in every text, so its gradient is the sum over the texts."""
    length_of_text, number_of_features = gradient_of_features.shape[-2:]
    gradient_of_each_text = gradient_of_features.reshape(-1, length_of_text, number_of_features)
    positions.grad[:length_of_text] += gradient_of_each_text.sum(axis=0)


class EncoderDecoder(Module):
    """Logits of the next token of a target, for a source text. Tokens with pad_id are hidden in the source.

    Shape: source (B, S), target (B, T) integers -> logits (B, T, vocab_size); S and T at most max_len. Source and target
        have one embedding, and a table of positions each. backward returns nothing.
    """

    def __init__(self, vocab_size, max_len, d_model, num_heads, d_ff, num_layers, rng, pad_id=0):
        self.pad_id = pad_id
        self.embedding = Embedding(vocab_size, d_model, rng)
        self.source_positions = Parameter(rng.normal(0, 0.02, (max_len, d_model)))
        self.target_positions = Parameter(rng.normal(0, 0.02, (max_len, d_model)))
        self.encoder = [Block(d_model, num_heads, d_ff, rng) for _ in range(num_layers)]
        self.encoder_norm = LayerNorm(d_model)
        self.decoder = [DecoderBlock(d_model, num_heads, d_ff, rng) for _ in range(num_layers)]
        self.decoder_norm = LayerNorm(d_model)
        self.output = Linear(d_model, vocab_size, rng)

    def encode(self, source):
        """The encoder's output (B, S, d_model), and the mask (B, 1, 1, S) of the tokens that may be seen."""
        length_of_source = source.shape[-1]
        may_be_seen = source != self.pad_id
        source_mask = may_be_seen[:, np.newaxis, np.newaxis, :]

        features = self.embedding(source) + self.source_positions.data[:length_of_source]
        for encoder_block in self.encoder:
            features = encoder_block(features, source_mask)
        memory = self.encoder_norm(features)
        return memory, source_mask

    def decode(self, target, memory, memory_mask):
        """The logits (B, T, vocab_size) of what comes after each token of the target."""
        length_of_target = target.shape[-1]
        target_mask = causal_mask(length_of_target)

        features = self.embedding(target) + self.target_positions.data[:length_of_target]
        for decoder_block in self.decoder:
            features = decoder_block(features, memory, target_mask, memory_mask)
        normalized_features = self.decoder_norm(features)
        logits = self.output(normalized_features)
        self.remember(memory)
        return logits

    def forward(self, source, target):
        memory, source_mask = self.encode(source)
        logits = self.decode(target, memory, source_mask)
        return logits

    def backward(self, dlogits):
        memory = self.recall()
        dmemory = np.zeros_like(memory)

        # decode
        gradient_of_normalized_features = self.output.backward(dlogits)
        gradient_of_features = self.decoder_norm.backward(gradient_of_normalized_features)
        for decoder_block in reversed(self.decoder):
            gradient_of_features, dmemory_of_this_block = decoder_block.backward(gradient_of_features)
            dmemory = dmemory + dmemory_of_this_block
        self.embedding.backward(gradient_of_features)
        add_to_used_positions(self.target_positions, gradient_of_features)

        # encode
        gradient_of_source_features = self.encoder_norm.backward(dmemory)
        for encoder_block in reversed(self.encoder):
            gradient_of_source_features = encoder_block.backward(gradient_of_source_features)
        self.embedding.backward(gradient_of_source_features)
        add_to_used_positions(self.source_positions, gradient_of_source_features)


def continue_with_every_token(model, hypotheses, memory, memory_mask):
    """All candidates: each hypothesis (ids, sum) followed by each token, with the new sum."""
    number_of_hypotheses = len(hypotheses)
    target = np.array([ids for ids, _ in hypotheses])
    repeated_memory = np.repeat(memory, number_of_hypotheses, axis=0)
    repeated_mask = np.repeat(memory_mask, number_of_hypotheses, axis=0)
    logits = model.decode(target, repeated_memory, repeated_mask)
    logits_of_next_token = logits[:, -1, :]
    log_probabilities = log_softmax(logits_of_next_token)

    candidates = []
    for hypothesis_number, (ids, old_sum) in enumerate(hypotheses):
        for token, log_probability in enumerate(log_probabilities[hypothesis_number].tolist()):
            candidates.append((ids + [token], old_sum + log_probability))
    return candidates


def beam_search(model, source, bos, eos, max_len, beam=4, alpha=0.6):
    """The best target of one source (S,) that the search finds: (list of ids, score).

    At each length, every unfinished target is continued with every token, and these candidates are ordered by the sum of
    their log probabilities. Those among the best `beam` that end in eos, or have max_len tokens, are finished; their score
    is the sum divided by ((5 + length) / 6) ** alpha. The best `beam` of all candidates without eos go on, until `beam` or
    more targets are finished. The ids of the result do not include bos, and the length counts eos.
    """
    memory, memory_mask = model.encode(np.asarray(source)[np.newaxis])
    unfinished_hypotheses = [([bos], 0.0)]
    finished_hypotheses = []

    for length in range(1, max_len + 1):
        candidates = continue_with_every_token(model, unfinished_hypotheses, memory, memory_mask)
        candidates.sort(key=lambda candidate: candidate[1], reverse=True)

        for ids, sum_of_log_probabilities in candidates[:beam]:
            ends_in_eos = ids[-1] == eos
            if ends_in_eos or length == max_len:
                length_penalty = ((5 + length) / 6) ** alpha
                score = sum_of_log_probabilities / length_penalty
                ids_without_bos = ids[1:]
                finished_hypotheses.append((ids_without_bos, score))
        if len(finished_hypotheses) >= beam:
            break

        candidates_without_eos = [candidate for candidate in candidates if candidate[0][-1] != eos]
        unfinished_hypotheses = candidates_without_eos[:beam]
        if not unfinished_hypotheses:
            break

    model.forget()
    best_ids, best_score = max(finished_hypotheses, key=lambda hypothesis: hypothesis[1])
    return best_ids, best_score
