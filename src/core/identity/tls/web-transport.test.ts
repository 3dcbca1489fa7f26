import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import { after, suite, test } from 'node:test';
import type { PeerCertificate, TlsOptions, TLSSocket } from 'node:tls';
import { systemClock } from '../../clock/system.ts';
import { hasCode } from '../../errors/error.ts';
import { certificatePem } from '../x509/pem.ts';
import { brokenRule } from '../x509/rules.ts';
import {
  credentialOf,
  forge,
  type Forged,
  forgeLeaf,
  forgeRoot,
  hourMs,
  purposes,
} from '../x509/test-forge.ts';
import { TlsTransport } from './tls-transport.ts';
import type { WebRules } from './transport.ts';
import { pinOf, webAuthorities, WebJudge } from './web-transport.ts';

const root = forge({ ca: true });
const middle = forge({ issuer: root, ca: true });
const forHost = (issuer: Forged, dnsNames = ['localhost'], extra: object = {}): Forged =>
  forge({ issuer, ca: false, dnsNames, purposes: [purposes.server], ...extra });
const leaf = forHost(middle);

const pem = (...certificates: readonly Forged[]): string =>
  certificates.map(({ der }) => certificatePem(der)).join('');
const pin = ({ der }: Forged): string => pinOf(new X509Certificate(der));
const rules = (extra: Partial<WebRules> = {}): WebRules => ({
  caBundle: pem(root),
  pinnedKeys: [],
  ...extra,
});

const caller = forgeLeaf(forgeRoot('bruges.example'), 'spiffe://bruges.example/hansa/site');
const transport = new TlsTransport({ clock: systemClock, credential: () => credentialOf(caller) });

const servers: Server[] = [];
after(() => {
  for (const server of servers) server.close();
});

async function serve(
  chain: readonly Forged[],
  listener: RequestListener = (_request, response) => response.end('{}'),
  options: TlsOptions = {},
): Promise<URL> {
  const [first = leaf, ...above] = chain;
  const { certificateChain, privateKey } = credentialOf(first, ...above);
  const server = createServer({ cert: certificateChain, key: privateKey, ...options }, listener);
  servers.push(server);
  server.listen(0, 'localhost');
  await once(server, 'listening');
  return new URL(`https://localhost:${(server.address() as AddressInfo).port}/`);
}

async function fetchFrom(
  url: URL,
  web: WebRules,
  quietMs?: number,
  timeoutMs = 60_000,
): Promise<string> {
  const connection = await transport.connect({
    url,
    web,
    asSite: false,
    timeoutMs,
    ...(quietMs === undefined ? {} : { quietMs }),
    verify: (chain) => assert.deepEqual(chain, []),
  });
  try {
    return (await connection.request({ method: 'GET', path: '/' }, 100)).body.toString();
  } finally {
    connection.close();
  }
}

const refusedFor = async (url: URL, web: WebRules): Promise<string | undefined> => {
  try {
    await fetchFrom(url, web);
    return undefined;
  } catch (caught) {
    return brokenRule(caught) ?? String(caught);
  }
};

suite('a server of the Web PKI', () => {
  test('is believed for its name, by the authority that an operator names', async () => {
    assert.equal(await fetchFrom(await serve([leaf, middle]), rules()), '{}');
  });

  test('is not believed by an authority that nobody named', async () => {
    const url = await serve([leaf, middle]);
    assert.equal(await refusedFor(url, rules({ caBundle: undefined })), 'web-authority');
    const other = forge({ ca: true });
    assert.equal(await refusedFor(url, rules({ caBundle: pem(other) })), 'web-authority');
  });

  test('is not believed with a certificate for another name', async () => {
    const url = await serve([forHost(root, ['elsewhere.example'])]);
    assert.equal(await refusedFor(url, rules()), 'server-name');
  });

  test('is not believed for an address that its certificate does not name', async () => {
    const url = await serve([forHost(root, ['localhost', '127.0.0.1'])]);
    url.hostname = '127.0.0.1';
    // Whether localhost is this address or ::1 is the machine's: both answers refuse.
    assert.match(String(await refusedFor(url, rules())), /server-name|nobody listens/);
  });

  test('is not believed with an SVID: it is for no name', async () => {
    const authority = forgeRoot('bruges.example');
    const svid = forgeLeaf(authority, 'spiffe://bruges.example/hansa/site');
    const url = await serve([svid]);
    assert.equal(await refusedFor(url, rules({ caBundle: pem(authority) })), 'server-name');
  });

  test('is not believed before and after its time', async () => {
    const nowMs = Date.now();
    const old = forHost(root, ['localhost'], { notAfterMs: nowMs - hourMs });
    assert.equal(await refusedFor(await serve([old]), rules()), 'expired');
    const early = forHost(root, ['localhost'], { notBeforeMs: nowMs + hourMs });
    assert.equal(await refusedFor(await serve([early]), rules()), 'not-yet-valid');
  });

  test('is not believed where its certificate is its own authority', async () => {
    const url = await serve([forge({ ca: false, dnsNames: ['localhost'] })]);
    assert.equal(await refusedFor(url, rules()), 'web-authority');
  });

  test('is shown no certificate of ours', async () => {
    let shown: unknown;
    const url = await serve(
      [leaf, middle],
      (request, response) => {
        shown = (request.socket as TLSSocket).getPeerX509Certificate();
        response.end();
      },
      { requestCert: true, rejectUnauthorized: false },
    );
    await fetchFrom(url, rules());
    assert.equal(shown, undefined);
  });

  test('that speaks nothing newer than TLS 1.1 is not spoken to', async () => {
    const url = await serve([leaf, middle], undefined, {
      minVersion: 'TLSv1',
      maxVersion: 'TLSv1.1',
      ciphers: 'DEFAULT@SECLEVEL=0',
    });
    await assert.rejects(fetchFrom(url, rules()), (caught) => hasCode(caught, 'HANSA_UNREACHABLE'));
  });

  test('that sends nothing for a while is left, though its time is not up', async () => {
    const url = await serve([leaf, middle], (_request, response) => {
      response.writeHead(200).flushHeaders();
    });
    await assert.rejects(
      fetchFrom(url, rules(), 50),
      (caught) => hasCode(caught, 'HANSA_UNREACHABLE') && /sent nothing/.test(caught.message),
    );
  });
});

test('a server that sends byte by byte is left when its time is up, though it is never quiet', async () => {
  const url = await serve([leaf, middle], (_request, response) => {
    const drip = setInterval(() => response.write(' '), 5);
    response.on('close', () => clearInterval(drip));
  });
  await assert.rejects(
    fetchFrom(url, rules(), 60_000, 200),
    (caught) =>
      (hasCode(caught, 'HANSA_UNREACHABLE') && /did not answer within/.test(caught.message)) ||
      hasCode(caught, 'HANSA_TOO_LARGE'),
  );
});

suite('a pinned key', () => {
  test('may be that of the server, or of anybody above it', async () => {
    const url = await serve([leaf, middle]);
    for (const pinned of [leaf, middle, root]) {
      const pinnedKeys = [pin(forge({})), pin(pinned)];
      assert.equal(await fetchFrom(url, rules({ pinnedKeys })), '{}');
    }
  });

  test('of somebody else refuses the server, though its certificate is sound', async () => {
    const url = await serve([leaf, middle]);
    const web = rules({ pinnedKeys: [pin(forge({ ca: true }))] });
    assert.equal(await refusedFor(url, web), 'pinned-key');
  });

  test('does not count in a certificate that signed nothing of the chain', async () => {
    const pinned = forge({ issuer: root, ca: true });
    // The same name as the real one, sent along to be found.
    const decoy = forge({
      issuer: root,
      ca: true,
      key: pinned.key,
      subject: middle.certificate.subject,
    });
    for (const chain of [
      [leaf, middle, pinned],
      [leaf, middle, decoy],
      [leaf, decoy, middle],
    ]) {
      const web = rules({ pinnedKeys: [pin(pinned)] });
      assert.match(String(await refusedFor(await serve(chain), web)), /pinned-key|web-authority/);
    }
  });

  test('is not looked for above a certificate whose key nobody can read', () => {
    // Of an algorithm that does not exist. node:tls would let what `check` throws end the process.
    const spki = Buffer.from('300b30050603883701030200ff', 'hex');
    const strange = forge({ ca: true, subject: middle.certificate.subject, spki });
    const judge = new WebJudge(rules({ pinnedKeys: [pin(root)] }), () => systemClock.now());
    const refusal = judge.check('localhost', {
      raw: leaf.der,
      subjectaltname: 'DNS:localhost',
      subject: {},
      issuerCertificate: { raw: strange.der },
    } as unknown as PeerCertificate);
    assert.equal(brokenRule(refusal), 'pinned-key');
  });

  suite('above a cross-signature', () => {
    const other = forge({ ca: true });
    /** Another certificate of our root, signed by `other`. */
    const cross = (extra: object = {}): Forged =>
      forge({
        issuer: other,
        ca: true,
        key: root.key,
        subject: root.certificate.subject,
        ...extra,
      });
    const ended = { notAfterMs: Date.UTC(2021, 0) };
    const future = { notBeforeMs: Date.UTC(2048, 0) };

    test('counts while that is valid', async () => {
      const url = await serve([leaf, middle, cross(), other]);
      assert.equal(await fetchFrom(url, rules({ pinnedKeys: [pin(other)] })), '{}');
    });

    test('does not count before and after', async () => {
      for (const time of [ended, future]) {
        const url = await serve([leaf, middle, cross(time), other]);
        assert.equal(await refusedFor(url, rules({ pinnedKeys: [pin(other)] })), 'pinned-key');
      }
    });

    test('that has ended is not needed by an authority that is accepted itself', async () => {
      const url = await serve([leaf, middle, cross(ended), other]);
      assert.equal(await fetchFrom(url, rules({ pinnedKeys: [pin(root)] })), '{}');
      assert.equal(await fetchFrom(url, rules({ pinnedKeys: [pin(middle)] })), '{}');
    });

    test('does not count where the one above has ended, or is no authority', async () => {
      for (const extra of [ended, { ca: false }]) {
        const above = forge({
          key: other.key,
          subject: other.certificate.subject,
          ca: true,
          ...extra,
        });
        const url = await serve([leaf, middle, cross(), above]);
        assert.equal(await refusedFor(url, rules({ pinnedKeys: [pin(other)] })), 'pinned-key');
      }
    });
  });
});

suite('authorities for the Web PKI', () => {
  test('are certificates in PEM, one or several', () => {
    assert.equal(webAuthorities(pem(root)).length, 1);
    assert.equal(webAuthorities(`# ours\n${pem(root, middle)}`).length, 2);
  });

  const bad: Record<string, { text: string; why: RegExp }> = {
    nothing: { text: '', why: /no certificate/ },
    'no PEM': { text: 'hello', why: /no certificate/ },
    'half a certificate': { text: pem(root).slice(0, -40), why: /no certificate/ },
    'a certificate that cannot be read': {
      text: '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n',
      why: /certificate 1 in it cannot be read/,
    },
    'a certificate of a server': {
      text: pem(root, leaf),
      why: /certificate 2 in it is not a CA certificate/,
    },
    'too many': { text: pem(root).repeat(65), why: /65 certificates/ },
    'a private key': { text: pem(root) + credentialOf(leaf).privateKey, why: /private key/ },
  };
  for (const [what, { text, why }] of Object.entries(bad)) {
    test(`are not ${what}`, () => assert.throws(() => webAuthorities(text), why));
  }
});
