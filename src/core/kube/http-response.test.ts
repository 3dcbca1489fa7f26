import assert from 'node:assert/strict';
import { createServer as createTcpServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { request } from 'node:http';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { HttpSyntaxError, ResponseParser } from './http-response.ts';

interface Parsed {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly isReusable: boolean;
}

/** Pushes the text in pieces of these sizes, then ends the connection. Undefined where it is incomplete. */
function parse(text: string, sizes: readonly number[] = []): Parsed | undefined {
  const bytes = Buffer.from(text, 'latin1');
  let head: Pick<Parsed, 'status' | 'headers'> | undefined;
  let body = '';
  let result: Parsed | undefined;
  const parser = new ResponseParser({
    onHead: ({ status, headers }) => {
      assert.equal(head, undefined);
      head = { status, headers: { ...headers } };
    },
    onData: (chunk) => {
      assert.ok(chunk.length > 0);
      body += chunk.toString('latin1');
    },
    onEnd: (isReusable) => {
      assert.ok(head);
      assert.equal(result, undefined);
      result = { ...head, body, isReusable };
    },
  });
  let at = 0;
  for (const size of sizes) {
    parser.push(bytes.subarray(at, at + size));
    at += size;
  }
  parser.push(bytes.subarray(at));
  parser.finish();
  return result;
}

const head = (...lines: readonly string[]): string => `${lines.join('\r\n')}\r\n\r\n`;
const ok = (...lines: readonly string[]): string => head('HTTP/1.1 200 OK', ...lines);

suite('a response', () => {
  test('with a length is read up to it', () => {
    assert.deepEqual(parse(`${ok('Content-Length: 5', 'X-A:  b\t')}hello`), {
      status: 200,
      headers: { 'content-length': '5', 'x-a': 'b' },
      body: 'hello',
      isReusable: true,
    });
    assert.equal(parse(ok('Content-Length: 0'))?.body, '');
  });

  test('in chunks is joined, with trailers ignored', () => {
    const text = `${ok('Transfer-Encoding: Chunked')}5\r\nhello\r\n06\r\n world\r\n0\r\nX: y\r\n\r\n`;
    assert.equal(parse(text)?.body, 'hello world');
    assert.equal(parse(text)?.isReusable, true);
    assert.equal(parse(`${ok('transfer-encoding: chunked')}0\r\n\r\n`)?.body, '');
  });

  test('without a length ends with the connection, which cannot be reused', () => {
    const found = parse(`${head('HTTP/1.0 200 OK')}all of it`);
    assert.equal(found?.body, 'all of it');
    assert.equal(found?.isReusable, false);
  });

  test('without a body by its status needs no length', () => {
    assert.equal(parse(head('HTTP/1.1 204 No Content'))?.body, '');
    assert.equal(parse(head('HTTP/1.1 204'))?.isReusable, true);
  });

  test('may ask to end the connection', () => {
    for (const value of ['close', 'Close', 'keep-alive, close', 'close , x']) {
      const found = parse(ok('Content-Length: 0', `Connection: ${value}`));
      assert.equal(found?.isReusable, false, value);
    }
    assert.equal(parse(ok('Content-Length: 0', 'Connection: closed'))?.isReusable, true);
    assert.equal(parse(head('HTTP/1.0 200 OK', 'Content-Length: 0'))?.isReusable, false);
  });

  test('may follow interim ones', () => {
    const interim = head('HTTP/1.1 103 Early Hints', 'Link: x');
    assert.equal(parse(`${interim.repeat(8)}${ok('Content-Length: 1')}x`)?.body, 'x');
    assert.throws(() => parse(interim.repeat(9)), HttpSyntaxError);
  });

  test('joins headers that repeat, and takes any name', () => {
    const { headers } = parse(ok('Content-Length: 0', 'A: 1', 'a: 2', '__proto__: x')) ?? {};
    assert.equal(headers?.['a'], '1, 2');
    assert.equal(Object.getPrototypeOf({}), Object.prototype);
  });

  test('that ends too early is not complete', () => {
    for (const text of [
      '',
      'HTTP/1.1 200 OK\r\n',
      `${ok('Content-Length: 5')}hell`,
      `${ok('Transfer-Encoding: chunked')}5\r\nhello\r\n`,
      `${ok('Transfer-Encoding: chunked')}5\r\nhello\r\n0\r\n`,
      head('HTTP/1.1 100 Continue'),
    ]) {
      assert.equal(parse(text), undefined, JSON.stringify(text));
    }
  });
});

suite('a response is refused', () => {
  for (const [what, text] of [
    ['that is another protocol', 'SSH-2.0-OpenSSH_9.9\r\n'],
    ['of HTTP/2', head('HTTP/2 200 OK')],
    ['of HTTP/1.2', head('HTTP/1.2 200 OK')],
    ['with a status of two digits', head('HTTP/1.1 20 OK')],
    ['with a status of four digits', head('HTTP/1.1 2000 OK')],
    ['with a status below 100', head('HTTP/1.1 099 OK')],
    ['that switches protocols', head('HTTP/1.1 101 Switching Protocols', 'Upgrade: x')],
    ['with a header without a colon', ok('nonsense')],
    ['with a header without a name', ok(': x')],
    ['with a space before the colon', ok('Content-Length : 0')],
    ['with a folded header', ok('A: b', ' c')],
    ['with a control character in a header', ok('A: b\u0000c')],
    ['with a bare line feed', ok('A: b\nContent-Length: 0')],
    ['with a bare carriage return', ok('A: b\rC: d')],
    ['with two lengths', ok('Content-Length: 1', 'Content-Length: 2')],
    ['with the same length twice', ok('Content-Length: 1', 'Content-Length: 1')],
    ['with a negative length', ok('Content-Length: -1')],
    ['with a signed length', ok('Content-Length: +1')],
    ['with a hexadecimal length', ok('Content-Length: 0x1')],
    ['with an empty length', ok('Content-Length:')],
    ['with a length and a no-break space', ok('Content-Length: 1\u00a0')],
    ['with a huge length', ok(`Content-Length: ${'9'.repeat(20)}`)],
    ['with a length and chunks', ok('Content-Length: 1', 'Transfer-Encoding: chunked')],
    ['with another encoding', ok('Transfer-Encoding: gzip, chunked')],
    ['with two encodings', ok('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked')],
    ['with chunks in HTTP/1.0', head('HTTP/1.0 200 OK', 'Transfer-Encoding: chunked')],
    ['with an empty chunk size', `${ok('Transfer-Encoding: chunked')}\r\n`],
    ['with a chunk size that is no number', `${ok('Transfer-Encoding: chunked')}zz\r\n`],
    ['with a negative chunk size', `${ok('Transfer-Encoding: chunked')}-1\r\n`],
    ['with a huge chunk size', `${ok('Transfer-Encoding: chunked')}fffffffff\r\n`],
    ['with an extension of a chunk', `${ok('Transfer-Encoding: chunked')}1;a=b\r\n`],
    ['with an endless chunk size', `${ok('Transfer-Encoding: chunked')}${'0'.repeat(1000)}`],
    ['with a chunk longer than its size', `${ok('Transfer-Encoding: chunked')}1\r\nab\r\n`],
    [
      'with a length in trailers',
      `${ok('Transfer-Encoding: chunked')}0\r\nContent-Length: 3\r\n\r\n`,
    ],
    ['with malformed trailers', `${ok('Transfer-Encoding: chunked')}0\r\nnonsense\r\n\r\n`],
    ['with endless trailers', `${ok('Transfer-Encoding: chunked')}0\r\nA: ${'x'.repeat(20_000)}`],
    ['with endless headers', `HTTP/1.1 200 OK\r\nA: ${'x'.repeat(20_000)}`],
    ['with too many headers', ok(...Array.from({ length: 201 }, () => 'A: b'))],
    ['that is followed by another', `${ok('Content-Length: 0')}HTTP/1.1`],
  ] as const) {
    test(what, () => {
      assert.throws(() => parse(text), HttpSyntaxError);
    });
  }
});

const anyHeaders = fc.array(
  fc.constantFrom('X-A: b', 'Connection: close', 'X-A:', 'Date: Mon, 16 Nov 2026 14:11:05 GMT'),
  { maxLength: 4 },
);
const chunked = (parts: readonly string[]): string =>
  `${parts.map((part) => `${part.length.toString(16)}\r\n${part}\r\n`).join('')}0\r\n\r\n`;
const latin1 = fc.string({
  unit: fc.integer({ min: 0, max: 255 }).map((c) => String.fromCharCode(c)),
});
const anyResponse = fc.oneof(
  fc.tuple(anyHeaders, latin1).map(([lines, body]) => ({
    text: `${ok(...lines, `Content-Length: ${body.length}`)}${body}`,
    body,
  })),
  fc.tuple(anyHeaders, fc.array(latin1.filter((part) => part !== ''))).map(([lines, all]) => ({
    text: `${ok(...lines, 'Transfer-Encoding: chunked')}${chunked(all)}`,
    body: all.join(''),
  })),
);

test('a response is read in the same way however its bytes are cut', () => {
  fc.assert(
    fc.property(
      anyResponse,
      fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 30 }),
      ({ text, body }, sizes) => {
        assert.equal(parse(text)?.body, body);
        let left = Buffer.from(text, 'latin1').length - 1;
        const fitting = sizes.filter((size) => {
          left -= size;
          return left >= 0;
        });
        assert.deepEqual(parse(text, fitting), parse(text));
      },
    ),
  );
});

test('what it accepts, the parser of node accepts too, with the same status and body', async () => {
  let text = '';
  const server = createTcpServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.end(text, 'latin1'));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const byNode = (): Promise<{ status: number; body: string }> =>
    new Promise((resolve, reject) => {
      const out = request({ port, host: '127.0.0.1', agent: false }, (answer) => {
        let body = '';
        answer.on('data', (chunk: Buffer) => {
          body += chunk.toString('latin1');
        });
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body }));
        answer.on('error', reject);
      });
      out.on('error', reject);
      out.end();
    });
  const mutated = fc
    .tuple(
      anyResponse,
      fc.nat(),
      fc.nat({ max: 3 }),
      fc.constantFrom(
        '',
        '\r\n',
        '\n',
        '\r',
        ':',
        ' ',
        '0',
        '5',
        ';',
        '\u0000',
        'Content-Length: 3\r\n',
      ),
    )
    .map(([{ text: valid }, at, cut, put]) => {
      const place = at % valid.length;
      return valid.slice(0, place) + put + valid.slice(place + cut);
    });
  try {
    await fc.assert(
      fc.asyncProperty(mutated, async (candidate) => {
        let mine: Parsed | undefined;
        try {
          mine = parse(candidate);
        } catch (caught) {
          assert.ok(caught instanceof HttpSyntaxError, String(caught));
        }
        if (mine === undefined) return;
        text = candidate;
        assert.deepEqual(await byNode(), { status: mine.status, body: mine.body });
      }),
      { numRuns: 300 },
    );
  } finally {
    server.close();
  }
});
