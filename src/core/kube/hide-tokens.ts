// Hides tokens in texts of servers that are shown or stored. A server, or a proxy before it, may repeat the
// token that a request contained. Pure.

/**
 * The JSON of a header begins with `{"`, which is `eyJ` in base64. The text may end within the token. Only
 * whole words, so that the search is linear.
 */
const token = /(?<![\w-])eyJ[\w-]+(?:\.[\w-]*){0,2}/g;

export function hideTokens(text: string): string {
  return text.replaceAll(token, '[token]');
}

/** A shorter one is no secret, and would be found in ordinary words. */
const shortestSecret = 8;

/** Hides a bearer token of any form: as it is, and as JSON encoders of JavaScript and Go write it. */
export function hideSecret(text: string, secret: string): string {
  if (secret.length < shortestSecret) return text;
  let hidden = text;
  for (const form of formsOf(secret)) hidden = hidden.replaceAll(form, () => '[token]');
  return hidden;
}

/**
 * The same for the bytes of a body. Returns the body itself where it does not contain the secret. A binary body keeps
 * its length, because protobuf counts bytes.
 */
export function hideSecretIn(body: Buffer, secret: string, isBinary: boolean): Buffer {
  if (secret.length < shortestSecret || !formsOf(secret).some((form) => body.includes(form))) {
    return body;
  }
  const text = body.toString('latin1');
  const hidden = isBinary
    ? text.replaceAll(secret, () => '[token]'.padEnd(secret.length, '*'))
    : hideSecret(text, secret);
  return Buffer.from(hidden, 'latin1');
}

/** Tokens are ASCII. */
function formsOf(secret: string): readonly string[] {
  if (!/["\\<>&]/.test(secret)) return [secret];
  const inJson = JSON.stringify(secret).slice(1, -1);
  return [secret, inJson, inJson.replaceAll(/[<>&]/g, goEscape)];
}

function goEscape(sign: string): string {
  return `\\u00${sign.charCodeAt(0).toString(16)}`;
}
