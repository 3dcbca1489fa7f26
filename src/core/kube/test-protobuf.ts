// Test fixture: writes messages of the protobuf encoding from the start to the end, also malformed ones.

export function field(number: number, value: string | Buffer): Buffer {
  const bytes = Buffer.from(value as string);
  const head = [number * 8 + 2];
  let length = bytes.length;
  for (; length >= 0x80; length = Math.floor(length / 128)) head.push((length % 128) | 0x80);
  head.push(length);
  return Buffer.concat([Buffer.from(head), bytes]);
}

export function envelope(apiVersion: string, kind: string, raw: Buffer): Buffer {
  const type = Buffer.concat([field(1, apiVersion), field(2, kind)]);
  return Buffer.concat([Buffer.from('k8s\0'), field(1, type), field(2, raw)]);
}
