// The document of a film with its arrays decoded, once for the whole film.

const TYPES = { float32: Float32Array, int32: Int32Array, uint8: Uint8Array, int8: Int8Array };

export function decode({ shape, dtype, data }) {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  return { shape, data: new TYPES[dtype](bytes.buffer) };
}

// The film: the document, and what the panels ask for often. All arrays have one part for each frame, one after the other.
export function readFilm(doc) {
  const { curves } = doc;
  return {
    doc,
    frames: doc.frames,
    curves: { step: decode(curves.step).data, loss: decode(curves.loss).data, norm: decode(curves.norm).data, lr: decode(curves.lr).data },
    norms: { weights: decode(doc.norms.weights).data, gradients: decode(doc.norms.gradients).data },
    attention: doc.attention.map((layer) => ({ ...layer, ...decode(layer.weights) })),
    arrays: doc.parameters.map((parameter) => ({ weights: readPictures(parameter.weights), gradients: readPictures(parameter.gradients) })),
    example: doc.example && { ...doc.example, right: decode(doc.example.right).data, best: decode(doc.example.best).data,
      isRight: decode(doc.example.is_right).data, probabilities: decode(doc.example.probabilities).data },
  };
}

// Pictures of one array: the codes of all frames, the scale of each frame, and the limit that the colors keep for the whole film.
function readPictures({ codes, scales }) {
  const decoded = decode(codes);
  const [, rows, columns] = decoded.shape;
  const ofFrames = decode(scales).data;
  return { rows, columns, codes: decoded.data, scales: ofFrames, limit: ofFrames.reduce((most, scale) => Math.max(most, scale), 0) };
}

// The latest validation up to a step, or null.
export function validationAt({ doc }, step) {
  return doc.validation.reduce((latest, point) => (point.step <= step ? point : latest), null);
}
