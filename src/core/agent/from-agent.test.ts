import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { FromAgentSchema } from '../../../proto/gen/agent_pb.ts';
import { agentKind } from '../../api/kinds/agent.ts';
import { validateStructure } from '../../api/schema/validate.ts';
import { maxAudiences } from '../identity/jwt/sign-svid.ts';
import { kindOfMessage, parseFromAgent } from './from-agent.ts';
import { maxHelloItems, maxLaterMessageBytes, maxSignBatch } from './limits.ts';

type Said = NonNullable<
  Exclude<MessageInitShape<typeof FromAgentSchema>, { $typeName: string }>['message']
>;

const encoded = (message: Said) => toBinary(FromAgentSchema, create(FromAgentSchema, { message }));
const parsed = (message: Said) => parseFromAgent(encoded(message));

/** A field with bytes. */
function field(number: number, bytes: Uint8Array): Buffer {
  const length: number[] = [];
  let left = bytes.byteLength;
  for (; left > 127; left >>>= 7) length.push((left & 127) | 128);
  return Buffer.concat([Buffer.of((number << 3) | 2, ...length, left), bytes]);
}

/** Many empty fields, two bytes each. */
const emptyFields = (number: number, count: number) =>
  Buffer.alloc(count * 2, Buffer.of((number << 3) | 2, 0));

suite('what an agent says of itself', () => {
  test('always fits the status of an Agent, which clients of the API validate', () => {
    const schema = agentKind.status;
    assert.ok(schema !== undefined);
    for (const text of ['h', 'ä', '\u{1f6a2}', '\u001b[31m']) {
      const hello = parsed({
        case: 'hello',
        value: { version: text.repeat(2000), host: text.repeat(2000), session: new Uint8Array(16) },
      });
      const report = parsed({
        case: 'report',
        value: {
          entries: 2 ** 32 - 1,
          workloads: 2 ** 32 - 1,
          problems: Array<string>(16).fill(text.repeat(2000)),
        },
      });
      assert.ok(hello.kind === 'hello' && report.kind === 'report');
      const { version, host } = hello.hello;
      assert.deepEqual(validateStructure(schema, { version, host, ...report.report }), []);
    }
  });
});

suite('a message of an agent is refused before it is decoded', () => {
  const tooMany = { code: 'HANSA_BAD_REQUEST', message: /has more than \d+ parts/ };
  const audience = Array<string>(130_000).fill('');

  test('where one request has very many audiences', () => {
    assert.throws(() => parsed({ case: 'sign', value: { jwt: [{ audience }] } }), tooMany);
  });

  test('where many requests together have very many audiences', () => {
    const jwt = Array.from({ length: 200 }, () => ({ audience: audience.slice(0, 500) }));
    assert.throws(() => parsed({ case: 'sign', value: { jwt } }), tooMany);
  });

  test('where a field is repeated, at every depth', () => {
    const name = field(1, emptyFields(1, 500_000));
    for (const message of [
      field(1, emptyFields(3, 500_000)),
      field(1, field(5, emptyFields(2, 500_000))),
      field(1, field(5, name)),
      field(2, field(1, emptyFields(1, 100_000))),
      field(3, field(2, emptyFields(3, 100_000))),
      field(5, emptyFields(1, 100_000)),
      field(6, emptyFields(9, 100_000)),
      emptyFields(9, 100_000),
    ]) {
      assert.throws(() => parseFromAgent(message), tooMany);
    }
  });

  test('where it has a group, which can have any number of fields', () => {
    const group = Buffer.concat([
      Buffer.of((9 << 3) | 3),
      emptyFields(1, 100_000),
      Buffer.of((9 << 3) | 4),
    ]);
    const refused = { code: 'HANSA_BAD_REQUEST', message: /has a group/ };
    for (const message of [group, field(3, group), field(3, field(3, group))]) {
      assert.throws(() => parseFromAgent(message), refused);
    }
  });

  test('where it is two messages', () => {
    const hello = encoded({ case: 'hello', value: { session: new Uint8Array(16) } });
    const sign = encoded({ case: 'sign', value: { id: 1n } });
    const refused = { code: 'HANSA_BAD_REQUEST', message: /its one part first/ };
    for (const both of [
      [hello, sign],
      [sign, sign],
      [emptyFields(9, 1), sign],
    ]) {
      assert.throws(() => parseFromAgent(Buffer.concat(both)), refused);
    }
  });

  test('where it is large and no hello, by its first byte', () => {
    const refused = { code: 'HANSA_TOO_LARGE' };
    const large = Buffer.alloc(maxLaterMessageBytes + 1, 0xff);
    for (const number of [2, 3, 4, 5, 6, 9]) {
      large[0] = (number << 3) | 2;
      assert.throws(() => kindOfMessage(large), refused);
      assert.throws(() => parseFromAgent(large), refused);
    }
    large[0] = (1 << 3) | 2;
    assert.equal(kindOfMessage(large), 'hello');
    // What follows is broken, and is read only after the size.
    assert.throws(() => parseFromAgent(large), { code: 'HANSA_BAD_REQUEST' });
  });
});

suite('the largest messages of a correct agent are accepted', () => {
  test('a batch of requests with the most audiences', () => {
    const audience = Array<string>(maxAudiences).fill('db');
    const jwt = Array.from({ length: maxSignBatch - 1 }, () => ({ entry: 'uid', audience }));
    const message = parsed({ case: 'sign', value: { id: 1n, jwt, x509: [{ entry: 'uid' }] } });
    assert.ok(message.kind === 'sign');
    assert.equal(message.request.jwt.length, maxSignBatch - 1);
  });

  test('a hello with the most items', () => {
    const items = Array.from({ length: maxHelloItems }, (_, at) => ({
      name: { section: 'identities', collection: 'entries', name: `entry-${at}` },
      digest: Buffer.alloc(32, 1),
    }));
    const held = { incarnation: 'i', revision: 1n, epoch: 1n, hash: Buffer.alloc(32) };
    const value = { version: '1', host: 'quay', session: new Uint8Array(16), held, items };
    assert.equal(parsed({ case: 'hello', value }).kind, 'hello');
  });

  test('a message with fields that only newer sites know', () => {
    const ping = encoded({ case: 'ping', value: { nonce: Buffer.of(1) } });
    assert.equal(parseFromAgent(Buffer.concat([ping, emptyFields(9, 2)])).kind, 'ping');
    assert.equal(parseFromAgent(emptyFields(9, 1)).kind, 'unknown');
    assert.equal(parseFromAgent(Buffer.alloc(0)).kind, 'unknown');
  });
});
