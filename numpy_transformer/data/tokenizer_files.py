"""The older files of published tokenizers: vocab.json with merges.txt, or vocab.txt, turned into a tokenizer.json."""

import json
from typing import Any

VERSION = "#version"                            # begins the first line of merges.txt
QWEN2_PIECES = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
                r"\s+(?!\S)|\s+")               # the pieces of a text within which Qwen2 merges bytes
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
KINDS = {"gpt2": "GPT2", "roberta": "Roberta", "qwen2": "Qwen2", "bert": "Bert", "distilbert": "Bert"}  # by model_type
PAIRS = "vocab.json", "merges.txt"
NEEDED = {"GPT2": PAIRS, "Qwen2": PAIRS, "Roberta": PAIRS, "Bert": ("vocab.txt",)}
USUAL = {                                       # the special tokens that files need not name
    "GPT2": {"bos": "<|endoftext|>", "eos": "<|endoftext|>"},
    "Qwen2": {"eos": "<|endoftext|>"},
    "Roberta": {"bos": "<s>", "eos": "</s>", "cls": "<s>", "sep": "</s>", "unk": "<unk>", "pad": "<pad>", "mask": "<mask>"},
    "Bert": {"cls": "[CLS]", "sep": "[SEP]", "unk": "[UNK]", "pad": "[PAD]", "mask": "[MASK]"}}
REMEDY = ("write a tokenizer.json with AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) of the library "
          "transformers")


def has_tokenizer(files):
    """Returns True if the small files of a folder include a tokenizer, in one of the forms that can be read."""
    return "tokenizer.json" in files or "vocab.txt" in files or {"vocab.json", "merges.txt"} <= files.keys()


def needed_files(config):
    """Returns the names of the files that can take the place of a tokenizer.json, as words; "" for a kind of model without such
    files.
    """
    return " and ".join(NEEDED.get(KINDS.get(str(config.get("model_type")), ""), ()))


def make_definition(files, names, config):
    """Returns the content of tokenizer.json for a folder that has older files instead.

    Parameters:
        files : {name: content}
        names : dict, what tokenizer_config.json and special_tokens_map.json say
        config : dict, the content of config.json
    Raises: ValueError for a kind of tokenizer that is not known here, or for files that are damaged.
    """
    kind = str(names.get("tokenizer_class") or KINDS.get(str(config.get("model_type")), "")).removesuffix("Fast")
    kind = {"DistilBert": "Bert"}.get(kind.removesuffix("Tokenizer"), kind.removesuffix("Tokenizer"))
    if kind not in NEEDED or not set(NEEDED[kind]) <= files.keys():
        has = " and ".join(name for name in ("vocab.json", "merges.txt", "vocab.txt") if name in files)
        raise ValueError(f"the folder has {has}, but no tokenizer.json, and for a tokenizer of the kind {kind or None!r} "
                         f"this package cannot make one; {REMEDY}")
    special = {name: text_of(names.get(f"{name}_token")) or usual for name, usual in USUAL[kind].items()}
    special |= {name: text for name in ("bos", "eos", "pad", "unk") if (text := text_of(names.get(f"{name}_token")))}
    if kind == "Bert":
        vocab = {piece: number for number, piece in enumerate(files["vocab.txt"].rstrip("\n").split("\n"))}
        return json.dumps(word_pieces(vocab, special, names), ensure_ascii=False)
    vocab = read_vocab(files["vocab.json"])
    definition = byte_pairs(kind, vocab, read_merges(files["merges.txt"], vocab), names.get("add_prefix_space") is True)
    definition["added_tokens"] = added_tokens(vocab, special, names, files)
    if kind == "Roberta":
        ids = {name: id_of(special[name], vocab) for name in ("cls", "sep")}
        definition["post_processor"] = {
            "type": "RobertaProcessing", "sep": [special["sep"], ids["sep"]], "cls": [special["cls"], ids["cls"]],
            "trim_offsets": True, "add_prefix_space": definition["pre_tokenizer"]["add_prefix_space"]}
    return json.dumps(definition, ensure_ascii=False)


def text_of(token):
    """Returns the text of a special token, which may stand in a dict; None if there is none."""
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) and token else None


def read_vocab(text):
    try:
        vocab = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"vocab.json is not JSON ({error}); copy the complete file") from error
    if not isinstance(vocab, dict) or not all(type(i) is int and i >= 0 for i in vocab.values()):
        raise ValueError("vocab.json is not a JSON object with an id for each piece; copy the original file")
    return vocab


def read_merges(text, vocab):
    """Returns the list of pairs in merges.txt, in their order."""
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith(VERSION)]
    pairs = [line.rstrip("\r").split(" ") for line in lines]
    for number, pair in enumerate(pairs, 1):
        if len(pair) != 2 or not {*pair, "".join(pair)} <= vocab.keys():
            raise ValueError(f"merge {number:,} in merges.txt, {' '.join(pair)[:40]!r}, is not a pair of pieces of "
                             "vocab.json that make another one; copy both files of one tokenizer")
    return pairs


def byte_pairs(kind, vocab, merges, prefix_space):
    """Returns the definition of a byte-level BPE, without special tokens."""
    pieces: dict[str, Any] = BYTE_LEVEL | {"add_prefix_space": prefix_space}
    if kind == "Qwen2":
        split = {"type": "Split", "pattern": {"Regex": QWEN2_PIECES}, "behavior": "Isolated", "invert": False}
        pieces = {"type": "Sequence", "pretokenizers": [split, pieces | {"use_regex": False}]}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
            "normalizer": {"type": "NFC"} if kind == "Qwen2" else None, "pre_tokenizer": pieces,
            "post_processor": BYTE_LEVEL | {"trim_offsets": False}, "decoder": BYTE_LEVEL,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": merges}}


def word_pieces(vocab, special, names):
    """Returns the definition of BERT's WordPiece."""
    frame = {name: id_of(special[name], vocab) for name in ("cls", "sep")}
    normalizer = {"type": "BertNormalizer", "clean_text": True, "strip_accents": names.get("strip_accents"),
                  "handle_chinese_chars": names.get("tokenize_chinese_chars", True),
                  "lowercase": names.get("do_lower_case", True)}
    single = [{"SpecialToken": {"id": special["cls"], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
              {"SpecialToken": {"id": special["sep"], "type_id": 0}}]
    second = [{"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": special["sep"], "type_id": 1}}]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens(vocab, special, names, {}),
            "normalizer": normalizer, "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "TemplateProcessing", "single": single, "pair": single + second, "special_tokens": {
                special[name]: {"id": special[name], "ids": [i], "tokens": [special[name]]} for name, i in frame.items()}},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": special["unk"], "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100, "vocab": vocab}}


def id_of(token, vocab):
    if token not in vocab:
        raise ValueError(f"the tokenizer's special token {token!r} is not in its vocabulary; copy all files of one tokenizer")
    return vocab[token]


def added_tokens(vocab, special, names, files):
    """Returns the special tokens, and those that were added to the vocabulary, as tokenizer.json lists them."""
    ids = {text: vocab[text] for text in special.values() if text in vocab}
    listed = names.get("added_tokens_decoder") if isinstance(names.get("added_tokens_decoder"), dict) else {}
    added = {**read_vocab(files.get("added_tokens.json", "{}")),
             **{text_of(token): int(i) for i, token in listed.items() if text_of(token) and str(i).isdigit()}}
    more = names.get("additional_special_tokens") or []
    known = {*special.values(), *(text_of(token) for token in more if isinstance(more, list))}
    flags = {text_of(token): token for token in listed.values() if isinstance(token, dict)}
    tokens = []
    expected = len(vocab)                       # the library numbers tokens outside the vocabulary from here on
    for text, i in sorted((ids | added).items(), key=lambda item: item[1]):
        if vocab.get(text, expected) != i:
            raise ValueError(f"the tokenizer's added token {text!r} has the id {i}, where {vocab.get(text, expected)} is "
                             f"wanted, as vocab.json has {len(vocab):,} pieces; copy all files of one tokenizer, or {REMEDY}")
        expected += text not in vocab
        given = flags.get(text, {})
        is_special = bool(given.get("special", text in known))
        tokens.append({"id": i, "content": text, "single_word": bool(given.get("single_word", False)),
                       "lstrip": bool(given.get("lstrip", text == special.get("mask") == "<mask>")),
                       "rstrip": bool(given.get("rstrip", False)),
                       "normalized": bool(given.get("normalized", not is_special)), "special": is_special})
    return tokens
