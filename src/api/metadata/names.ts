// The syntax of names, label keys and label values, with the error messages of kube-apiserver.

const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const subdomain = `${label}(\\.${label})*`;
const subdomainGrammar = new RegExp(`^${subdomain}$`);
const subdomainWords = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '${subdomain}')`;
const subdomainMaxBytes = 253;

const key = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]';
const keyGrammar = new RegExp(`^${key}$`);
const keyWords = `must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '${key}')`;
const keyMaxBytes = 63;

const value = `(${key})?`;
const valueGrammar = new RegExp(`^${value}$`);
const valueWords = `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '${value}')`;
const valueMaxBytes = 63;

const none: readonly string[] = [];

function checkSubdomain(text: string, unit: 'bytes' | 'characters'): readonly string[] {
  const long = Buffer.byteLength(text) > subdomainMaxBytes;
  const wrong = !subdomainGrammar.test(text);
  if (!long && !wrong) return none;
  const messages: string[] = [];
  if (long) messages.push(`must be no more than ${subdomainMaxBytes} ${unit}`);
  if (wrong) messages.push(subdomainWords);
  return messages;
}

/** Names of objects: an RFC 1123 subdomain. Returns what is wrong, or nothing. */
export function checkName(text: string): readonly string[] {
  return checkSubdomain(text, 'characters');
}

const labelGrammar = new RegExp(`^${label}$`);
const labelMaxBytes = 63;

/** Whether a text is one label of a host name (RFC 1123). */
export function isLabel(text: string): boolean {
  return text.length <= labelMaxBytes && labelGrammar.test(text);
}

/** Names that become one label of a host name. Returns what is wrong, or nothing. */
export function checkLabel(text: string): readonly string[] {
  return isLabel(text)
    ? none
    : [
        `must be a DNS label: at most ${labelMaxBytes} lower-case letters, digits and '-', with a letter or digit at both ends`,
      ];
}

/** What may stand before a generated suffix: a name, but for a dash at its end. */
export function maskTrailingDash(prefix: string): string {
  return prefix.length > 1 && prefix.endsWith('-') ? `${prefix.slice(0, -2)}a` : prefix;
}

/** Keys of labels and annotations, and names of finalizers: a name, with an optional subdomain and `/` before it. */
export function checkQualifiedName(text: string): readonly string[] {
  const slash = text.indexOf('/');
  if (slash !== -1 && text.includes('/', slash + 1)) {
    return [
      `a valid label key ${keyWords} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
    ];
  }
  const name = text.slice(slash + 1);
  if (slash === -1 && name.length <= keyMaxBytes && keyGrammar.test(name)) return none;
  const messages: string[] = [];
  if (slash === 0) messages.push('prefix part must be non-empty');
  else if (slash > 0) {
    for (const message of checkSubdomain(text.slice(0, slash), 'bytes')) {
      messages.push(`prefix part ${message}`);
    }
  }
  if (name === '') messages.push('name part must be non-empty');
  else if (Buffer.byteLength(name) > keyMaxBytes) {
    messages.push(`name part must be no more than ${keyMaxBytes} bytes`);
  }
  if (!keyGrammar.test(name)) messages.push(`name part ${keyWords}`);
  return messages;
}

export function checkLabelValue(text: string): readonly string[] {
  if (text.length <= valueMaxBytes && valueGrammar.test(text)) return none;
  const messages: string[] = [];
  if (Buffer.byteLength(text) > valueMaxBytes) {
    messages.push(`must be no more than ${valueMaxBytes} bytes`);
  }
  if (!valueGrammar.test(text)) messages.push(valueWords);
  return messages;
}
