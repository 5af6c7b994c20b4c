// Every text of the page, in the language that was chosen when it was made: page.py writes the texts into the page as JSON,
// {"language": "en", "texts": {"timeline.forward": "forward {count} of {of}", ...}}. A text with a count has one form for
// each plural category of its language, such as "header.edits.one" and "header.edits.other".
//   t("timeline.forward", {count: 14, of: 38}) -> "forward 14 of 38"

const { language, texts } = JSON.parse(document.getElementById("texts").textContent);
const plural = new Intl.PluralRules(language);

export function t(key, numbers = {}) {
  const text = texts[key] ?? texts[`${key}.${plural.select(numbers.n ?? 0)}`] ?? texts[`${key}.other`] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in numbers ? String(numbers[name]) : whole));
}

// The name of an axis: "token", or "axis 0" for one without a name of its own.
export function axisName(axis) {
  const number = /^axis (\d+)$/.exec(axis.name);
  return number ? t("axis.numbered", { axis: number[1] }) : t(`axis.${axis.name}`);
}
