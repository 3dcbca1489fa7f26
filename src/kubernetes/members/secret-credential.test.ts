import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { SecretCredential } from './secret-credential.ts';
import { paths, TestCluster } from './test-cluster.ts';

const pem = '-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n';
const base64 = (text: string): string => Buffer.from(text).toString('base64');

function setUp(data: unknown = { token: base64('tok-1'), 'ca.crt': base64(pem) }) {
  const home = new TestCluster('home');
  const clock = new VirtualClock();
  const put = (next: unknown): void =>
    home.put(paths.secrets, {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'app1' },
      data: next,
    });
  put(data);
  const source = new SecretCredential({
    home,
    namespace: 'hansa-system',
    name: 'app1',
    clusterID: 'app1',
    clock,
  });
  const token = async (): Promise<string | undefined> => {
    const credential = await source.current();
    return credential.type === 'token' ? credential.token : undefined;
  };
  return { home, clock, put, source, token };
}

describe('the credential in a Secret of the home cluster', () => {
  test('is read once, by a request for exactly that Secret', async () => {
    const { home, source, token } = setUp();
    assert.deepEqual(await Promise.all([token(), token()]), ['tok-1', 'tok-1']);
    assert.equal(await source.authorities(), pem);
    assert.deepEqual(home.requests, ['GET /api/v1/namespaces/hansa-system/secrets/app1']);
  });

  test('is read again after five minutes, while requests use the old one', async () => {
    const { clock, put, token } = setUp();
    await token();
    put({ token: base64('tok-2') });
    await clock.advance(299_000);
    assert.equal(await token(), 'tok-1');
    await clock.advance(1000);
    assert.equal(await token(), 'tok-1');
    await clock.advance(0);
    assert.equal(await token(), 'tok-2');
  });

  test('is read again after a rejection, at most every five seconds', async () => {
    const { home, clock, put, source, token } = setUp();
    await token();
    put({ token: base64('tok-2') });
    source.refused(await source.current());
    assert.equal(await token(), 'tok-1');
    await clock.advance(5000);
    assert.equal(await token(), 'tok-2');
    source.refused({ type: 'token', token: 'tok-1' });
    assert.equal(await token(), 'tok-2');
    assert.equal(home.requests.length, 2);
  });

  test('is read again for a new CA after a doubt', async () => {
    const { clock, put, source } = setUp();
    await source.authorities();
    put({ token: base64('tok-1'), 'ca.crt': base64(`${pem}# new\n`) });
    source.doubt();
    await clock.advance(5000);
    assert.match(String(await source.authorities()), /# new/);
  });

  test('stays while the home cluster is away', async () => {
    const { home, clock, token } = setUp();
    await token();
    home.goAway();
    await clock.advance(600_000);
    assert.equal(await token(), 'tok-1');
    await clock.advance(0);
    home.comeBack();
    assert.equal(await token(), 'tok-1');
  });
});

describe('a Secret without a usable credential', () => {
  const bad: readonly (readonly [string, unknown, RegExp])[] = [
    ['no data', null, /no key "token"/],
    ['no token', { 'ca.crt': base64(pem) }, /no key "token"/],
    ['an empty token', { token: '' }, /no key "token"/],
    ['a token of two lines', { token: base64('secret-a\nsecret-b') }, /no key "token"/],
    ['a token of 20 KiB', { token: base64('s'.repeat(20_480)) }, /no key "token"/],
    ['a token of another type', { token: 7 }, /no key "token"/],
    ['a CA that is none', { token: base64('tok'), 'ca.crt': base64('secret') }, /"ca.crt"/],
    ['a CA of 200 KiB', { token: base64('tok'), 'ca.crt': base64(pem.repeat(4000)) }, /"ca.crt"/],
  ];
  for (const [name, data, message] of bad) {
    test(`with ${name} is refused, and the text is in no message`, async () => {
      const { source } = setUp(data);
      await assert.rejects(Promise.resolve(source.current()), (error: Error) => {
        assert.match(error.message, message);
        assert.match(error.message, /hansa-system\/app1/);
        assert.doesNotMatch(error.message, /secret-|sss|tok\b/);
        return true;
      });
    });
  }

  test('that does not exist, or may not be read, says what to do', async () => {
    const { home, source } = setUp();
    home.remove(paths.secrets, 'app1');
    await assert.rejects(Promise.resolve(source.current()), /Create it with the keys/);
    home.refusals.set(paths.secrets, 403);
    await assert.rejects(Promise.resolve(source.current()), /hansa cluster manifests/);
  });

  test('can be used as soon as it is corrected', async () => {
    const { put, token } = setUp({});
    await assert.rejects(token());
    put({ token: base64('tok-3') });
    assert.equal(await token(), 'tok-3');
  });
});
