"""The reference program: what a student has written after the last stage, to be read from the first file to the last.

module.py                                       what every layer obeys; students get it as it is
stage01_loss.py, stage02_linear.py              the loss; the linear layer and the embedding
stage03_normalization.py, stage04_feed_forward.py
stage05_attention.py, stage06_heads.py          one head; many
stage07_block.py, stage08_model.py              the block; the language model
stage09_training.py, stage10_sampling.py        how it learns; how it writes
stage11_gpt2.py, stage12_translation.py         GPT-2's weights; encoder, decoder and beam search
"""
