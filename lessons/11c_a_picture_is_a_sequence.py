# %% [markdown]
# # 11c A picture is a sequence, too
#
# A Transformer reads a sequence of vectors, and does not ask where they come from. Dosovitskiy et al. 2021 ("An Image
# is Worth 16x16 Words") cut a picture into square patches, and treat each patch as a word. Everything after that is the
# encoder that you know. Their model is called the Vision Transformer, ViT for short.
#
# In this lesson you build one from parts of earlier lessons. You write forward and backward of the two steps that are
# new, and train the model to read digits. Then you look at what it attends to.

# %% Digits, and two simple classifiers
import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import data
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, slopes

lesson.start(__name__)
drawing("patches")
rng = np.random.default_rng(11)
images, labels = data.draw_digits(40_960, rng)
test_images, test_labels = data.draw_digits(2_000, rng)
mean, std = images.mean(), images.std()
images, test_images = (images - mean) / std, (test_images - mean) / std
show(images=images, labels=labels)
picture = Figure(figsize=(12, 2.8), layout="constrained")
for n, axes in enumerate(picture.subplots(2, 10).flat):
    axes.imshow(test_images[np.flatnonzero(test_labels == n % 10)[n // 10]], "gray", vmin=-1, vmax=3)
    axes.set_axis_off()
figure("digits", picture)


def with_one(images):                       # each picture as a row of its pixels, and a 1 for the bias
    return np.concatenate([images.reshape(len(images), -1), np.ones((len(images), 1))], axis=1)


means = np.stack([images[labels == digit].mean(0) for digit in range(10)])
distances = ((test_images[:, None] - means) ** 2).sum((2, 3))               # (2000, 10)
W = np.linalg.lstsq(with_one(images), np.eye(10)[labels])[0]                # least squares: one output for each digit
by_mean = np.mean(distances.argmin(1) == test_labels)
by_line = np.mean((with_one(test_images) @ W).argmax(1) == test_labels)
claim("the nearest of the ten mean pictures is rarely the right one", 0.2 < by_mean < 0.5, f"{by_mean:.1%}")
claim("a linear classifier is right in about half of the cases", 0.4 < by_line < 0.65, f"{by_line:.1%}")

# %% [markdown]
# The pictures have 16 x 16 pixels. A small generator draws them: it bends, stretches, slants, rotates and moves the
# strokes of a digit, and adds noise, so no two pictures are equal. The pixels are then shifted and scaled to mean 0 and
# variance 1.
#
# A linear classifier multiplies each pixel by a fixed number. But a digit can lie anywhere, so no pixel means the same
# thing in all pictures. This is what makes the task hard for it.
#
# ## 1. Patches
#
# A picture of 16 x 16 pixels and patches of P x P pixels, P = 4, give (16 / 4)² = 16 patches. Each patch is flattened
# to P² = 16 numbers. No number is computed. The pixels are only put in another order, so backward puts the gradients
# back in their places.
#
# In NumPy, one reshape splits the rows and columns of a picture into (patch, place in the patch). Then the two middle
# axes change places.

# %% Patches, forward and backward
def to_patches(images, P):
    B, height, width = images.shape
    x = images.reshape(B, height // P, P, width // P, P)                    # rows: which patch, where in it; columns
    return x.swapaxes(2, 3).reshape(B, -1, P * P)                           # (B, T, P²)


def from_patches(dpatches, P, height, width):               # backward: the same steps from the last to the first
    dx = dpatches.reshape(-1, height // P, width // P, P, P)
    return dx.swapaxes(2, 3).reshape(-1, height, width)


numbers = np.arange(16).reshape(1, 4, 4)
predict("the pixels of a 4 x 4 picture are numbered row by row from 0: what is its second patch of 2 x 2 pixels?",
        (2, 3, 6, 7), why="It is the top right one. The first row of pixels there has 2 and 3, the second 6 and 7.")
show(numbers=numbers[0], patches=to_patches(numbers, 2)[0])
patches = to_patches(test_images, 4)
claim("the patches by loops are the same", [
    np.array_equal(patches[0, 4 * i + j], test_images[0, 4 * i:4 * i + 4, 4 * j:4 * j + 4].ravel())
    for i in range(4) for j in range(4)])
claim("backward puts every pixel back", np.array_equal(from_patches(patches, 4, 16, 16), test_images))

# %% [markdown]
# ## 2. From patches to the input of the encoder
#
# A Linear makes a vector of D numbers of each patch. It takes the place of the embedding table: words are picked from
# a table, but a patch already consists of numbers. A learned vector, the *class token*, comes before the patches, as
# [CLS] does in BERT (lesson 14). It belongs to no patch, and collects what the model needs for its answer. Finally each
# of the T + 1 tokens receives the learned vector of its position (lesson 04). In the paper this is equation 1:
#
#     x = [class; patch_1 W; ...; patch_T W] + PE
#
# The paper's W has no bias in this equation; its code, like nt.Linear, has one. In backward, dPE is dx, summed over the
# batch, because every picture uses the same table. The class token receives the sum of row 0, and W receives the rest.

# %% Equation 1, forward and backward
B, T, D = 3, 4, 5                           # three pictures of 4 x 4 pixels, patches of 2 x 2
tiny = rng.standard_normal((B, 4, 4))
W, b = rng.standard_normal((4, D)), rng.standard_normal(D)
class_token, PE = rng.standard_normal(D), rng.standard_normal((T + 1, D))


def embed(W, b, class_token, PE):
    u = to_patches(tiny, 2) @ W + b                                         # (B, T, D)
    first = np.broadcast_to(class_token, (B, 1, D))
    return np.concatenate([first, u], axis=1) + PE                          # (B, T + 1, D)


dx = rng.standard_normal((B, T + 1, D))
dPE = dx.sum(0)                             # x = [class; u] + PE
dclass = dx[:, 0].sum(0)                    # row 0 of [class; u], in every picture
du = dx[:, 1:]                              # the other rows
dW = to_patches(tiny, 2).reshape(-1, 4).T @ du.reshape(-1, D)               # u = patches W + b
db = du.sum((0, 1))
given = {"W": W, "b": b, "class_token": class_token, "PE": PE}
for name, gradient in (("W", dW), ("b", db), ("class_token", dclass), ("PE", dPE)):
    numeric = slopes(lambda value: np.sum(dx * embed(**(given | {name: value}))), given[name])
    claim(f"the gradient of {name} agrees with the complex step", np.abs(gradient - numeric).max() < 1e-13)


# %% [markdown]
# ## 3. The Vision Transformer
#
# The rest is known. Equations 2 and 3 of the paper are the two lines of a pre-norm block (lesson 10), with GELU in the
# feed-forward layer:
#
#     x = x + attention(norm1(x))
#     x = x + feed_forward(norm2(x))
#
# Equation 4 takes row 0 after the last block, the class token, and normalizes it. A Linear, the head, turns it into ten
# logits. All patches attend to all others, so there is no mask, and there is no padding either, since all pictures have
# the same size.
#
# In backward only row 0 receives a gradient from the head. The patches receive theirs through attention. One could also
# take the mean of all patches, as in lesson 11. The paper reports in an appendix that both work about equally well,
# though with different learning rates.

# %% The model
class VisionTransformer(nt.Module):
    def __init__(self, size, P, D, H, F, N, classes=10, rng=None):
        rng = np.random.default_rng(rng)
        T = (size // P) ** 2
        self.P = P
        self.patch = nt.Linear(P * P, D, rng=rng)
        self.class_token = nt.Parameter(0.02 * rng.standard_normal(D, np.float32))
        self.PE = nt.Parameter(0.02 * rng.standard_normal((T + 1, D), np.float32))
        self.blocks = [nt.EncoderBlock(D, H, F, dropout=0.0, norm="pre", activation="gelu", rng=rng) for _ in range(N)]
        self.norm = nt.LayerNorm(D)
        self.head = nt.Linear(D, classes, rng=rng)

    def forward(self, images):
        u = self.patch(to_patches(images, self.P))
        first = np.broadcast_to(self.class_token.data, (len(u), 1, u.shape[-1]))
        x = np.concatenate([first, u], axis=1) + self.PE.data
        for block in self.blocks:
            x = block(x)
        self.remember(images.shape, x.shape)
        return self.head(self.norm(x[:, 0]))

    def backward(self, dlogits):
        (_, height, width), shape = self.recall()
        dx = np.zeros(shape, dlogits.dtype)
        dx[:, 0] = self.norm.backward(self.head.backward(dlogits))
        for block in reversed(self.blocks):
            dx = block.backward(dx)
        self.PE.grad += dx.sum(0)
        self.class_token.grad += dx[:, 0].sum(0)
        return from_patches(self.patch.backward(dx[:, 1:]), self.P, height, width)


small = VisionTransformer(4, P=2, D=6, H=2, F=8, N=2, classes=3, rng=1).astype(np.float64)
for parameter in small.parameters():
    parameter.data = 0.5 * rng.standard_normal(parameter.data.shape)
report = nt.gradcheck(small, tiny)
claim("finite differences and the complex step confirm all gradients", report.ok, f"{len(report.rows)} arrays")

# %% [markdown]
# ## 4. Training
#
# The model has N = 3 blocks of width 48, and about 87,000 parameters. It sees 1,600 batches of 64 pictures, so none
# more than three times. The optimizer is Adam (lesson 02b). Its learning rate rises during the first 100 steps, and
# then falls in a straight line to 0 (lesson 19 says why this helps). The accuracy is measured on 2,000 new pictures.

# %% The model learns to read digits
predict("patches have 4 x 4 pixels: how many tokens does attention see for a picture of 16 x 16?", 17,
        why="There are 4 x 4 = 16 patches, and the class token is one more.")
model = VisionTransformer(16, P=4, D=48, H=4, F=192, N=3, rng=1)
claim("the model is small", model.num_parameters() < 100_000, f"{model.num_parameters():,} parameters")
criterion, optimizer = nt.CrossEntropyLoss(), nt.Adam(model.parameters(), lr=0.005, betas=(0.9, 0.98))
STEPS = 1_600
order = np.concatenate([rng.permutation(len(images)) for _ in range(3)])
curve = []
for step in range(STEPS):
    batch = order[64 * step:64 * step + 64]
    optimizer.lr = 0.005 * min((step + 1) / 100, 1 - step / STEPS)
    model.zero_grad()
    criterion(model(images[batch]), labels[batch])
    model.backward(criterion.backward())
    optimizer.step()
    if (step + 1) % 200 == 0:
        curve.append(np.mean(model.eval()(test_images).argmax(1) == test_labels))
        model.train()
        print(f"  step {step + 1:5}   accuracy {curve[-1]:.1%}")
claim("it reads more than 95% of new digits, far more than the linear classifier", curve[-1] > 0.95)

# %% [markdown]
# ## 5. What does it look at?
#
# Without PE the model could not know where a patch was, since attention treats its tokens as a set. So we shuffle the
# patches of each test picture, all in the same way. A model that looks only at which patches occur would not mind.
#
# Then we draw two maps for some digits: the weights with which the class token attends to the patches in the last
# block, as a mean over the heads, and the effect of each patch. The effect is how much the logit of the right digit
# falls if the patch is replaced by empty background: red where it falls, blue where it rises. Only the second one says
# what the answer depends on. A weight says how much of a value is taken, but not what the value contains, and after two
# blocks the vector at a patch contains parts of other patches too.

# %% Shuffled patches, attention weights, and the effect of each patch
model.eval()
shuffled = from_patches(to_patches(test_images, 4)[:, rng.permutation(16)], 4, 16, 16)
accuracy = np.mean(model(shuffled).argmax(1) == test_labels)
claim("if the patches are shuffled, it reads few of the digits", accuracy < 0.5, f"{accuracy:.1%}")
logits = model(test_images)
weights = model.blocks[-1].attention.attention.weights[:, :, 0].mean(1)     # (2000, 17), of the class token
empty = -mean / std                                                         # a pixel without ink
right = np.arange(len(test_labels)), test_labels
effect = np.empty((len(test_images), 16))
for t in range(16):
    patches = to_patches(test_images, 4).copy()
    patches[:, t] = empty
    effect[:, t] = (logits - model(from_patches(patches, 4, 16, 16)))[right]
ink = to_patches(test_images, 4).mean(-1)                                   # (2000, 16)
full, blank = ink > 0.5, ink < empty + 0.1
claim("removing a patch with much ink changes the logit far more than removing an empty one",
      abs(effect[full]).mean() > 3 * abs(effect[blank]).mean(),
      f"by {abs(effect[full]).mean():.2f} and {abs(effect[blank]).mean():.2f} on average")
print(f"  mean weight of a patch with much ink {weights[:, 1:][full].mean():.3f}, "
      f"of an empty one {weights[:, 1:][blank].mean():.3f}, of the class token itself {weights[:, 0].mean():.3f}")
claim("the 17 weights of each picture sum to 1", np.allclose(weights.sum(1), 1, atol=1e-5))
picture = Figure(figsize=(12, 5.4), layout="constrained")
rows = picture.subplots(3, 8)
for axes, n in zip(rows.T, [np.flatnonzero(test_labels == digit)[2] for digit in (0, 2, 3, 4, 5, 6, 8, 9)]):
    for a, overlay, colors in zip(axes, (None, weights[n, 1:], effect[n]), (None, "Reds", "RdBu_r")):
        a.imshow(test_images[n], "gray", vmin=-1, vmax=3)
        if overlay is not None:
            limit = abs(overlay).max()
            a.imshow(overlay.reshape(4, 4).repeat(4, 0).repeat(4, 1), colors, alpha=0.6,
                     vmin=0 if colors == "Reds" else -limit, vmax=limit)
        a.set(xticks=[], yticks=[])
    axes[0].set_title(f"{test_labels[n]}, read as {logits[n].argmax()}")
for a, title in zip(rows[:, 0], ("picture", "attention of\nthe class token", "effect of\neach patch")):
    a.set_ylabel(title, fontsize=13)
figure("attention", picture)

# %% [markdown]
# ## 6. Patches and convolutions
#
# A convolutional network, which was the usual choice for pictures before, applies the same small filter everywhere. So
# it knows from the start that neighboring pixels belong together, and that a digit stays the same when it moves. The
# ViT does not know either of these: it has to learn from data which positions are neighbors. This is why Dosovitskiy et
# al. found that it needs much more data: trained on ImageNet alone, their models remain a few
# points below comparable convolutional networks, and they overtake them after training on 14 to 300 million pictures.
# Here the generator provides as many digits as we like.
#
# ## Exercises
#
# 1. A picture of 224 x 224 pixels is cut into patches of 16 x 16. How many tokens are there, with the class token? By
#    which factor does the number of attention weights grow with patches of 8 x 8?
# 2. A color picture has three numbers per pixel. Which line of the model changes, and how?
# 3. Replace the class token by the mean of the patches. Write the new lines of forward and backward.
# 4. Give the model one patch per picture, P = 16. What can attention do then, and which part of the model still works
#    on the pixels?
# 5. Compare with the nearest neighbor: each test picture gets the label of the training picture with the smallest sum
#    of squared differences. How accurate is it, and what does it need that the ViT does not?
