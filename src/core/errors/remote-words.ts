// Text from another site or server, for people. A reader must see whose words they are, and the text must
// not look like words of ours: no line of its own, no control of the terminal, no end.

const longest = 500;
/** C0, DEL, C1, and characters that end a line or change its direction. */
const control =
  // oxlint-disable-next-line no-control-regex -- these are what is escaped
  /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** `PEER says: TEXT`, with control characters escaped, and not too long. */
export function saidBy(who: string, text: string): string {
  return text === '' ? `${who} gave no reason.` : `${who} says: ${escaped(text)}`;
}

/** As in JSON: `\n`, `\u001b`. */
export function escaped(text: string, longestText = longest): string {
  const cut = text.length > longestText ? `${text.slice(0, longestText - 1)}…` : text;
  return cut.toWellFormed().replaceAll(control, (found) => {
    const named = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }[found];
    return named ?? `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}
