// Evaluates a formula of the document (not written yet).

export async function spellIn(doc, ref, index, array) {
  return null;
}
