// Builds paths of API servers from names, so that no name can lead to another path.

/**
 * A tag: kubePath`/api/v1/namespaces/${namespace}/serviceaccounts/${name}`. Each value becomes one
 * segment. Throws a TypeError for values that a server could read as no segment or as its parent.
 */
export function kubePath(texts: TemplateStringsArray, ...values: readonly string[]): string {
  return texts.reduce((path, text, index) => path + segment(values[index - 1] as string) + text);
}

function segment(value: string): string {
  if (value === '' || value === '.' || value === '..') {
    throw new TypeError(`${JSON.stringify(value)} cannot be a part of a path`);
  }
  return encodeURIComponent(value);
}
