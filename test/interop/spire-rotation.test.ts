// A workload of SPIRE and a workload of a site call each other continuously, while each side
// rotates its authority step by step. No TLS handshake fails.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { temporaryFolder } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { db, type SpirePair, startSpirePair, web } from './spire-pair.ts';
import { missingTools } from './tool.ts';
import { Calls, type LineReader } from './workload-site.ts';

interface Context {
  readonly bundles?: Readonly<Record<string, number>>;
}

const skip = await missingTools('spire-server', 'spire-agent', 'go-spiffe');

suite('a rotation between a site and SPIRE', { skip }, () => {
  let pair: SpirePair;
  let fromSpire: Calls;
  let fromSite: Calls;
  let atSpire: Latest;

  before(async () => {
    pair = await startSpirePair(join(temporaryFolder(), 'lubeck'));
    const [dbAddress, webAddress] = await Promise.all([
      serve('site', web).then((address) => `https://${address}/`),
      serve('spire', db).then((address) => `https://${address}/`),
    ]);
    atSpire = new Latest(await pair.follow('spire', 'watch'));
    fromSpire = await Calls.begin(await pair.follow('spire', 'calls', dbAddress, db));
    fromSite = await Calls.begin(await pair.follow('site', 'calls', webAddress, web));
  });
  after(() => pair?.stop());

  const serve = async (side: 'site' | 'spire', authorized: string): Promise<string> => {
    const server = await pair.follow(side, 'server', '127.0.0.1:0', authorized);
    return (await server.next<{ readonly address: string }>()).address;
  };

  /** Whoever calls there and whoever is called there believes so many authorities of the other side. */
  const spireHolds = (count: number) =>
    Promise.all([fromSpire.untilHolds('client', count), fromSite.untilHolds('server', count)]);
  const siteHolds = (count: number) =>
    Promise.all([fromSite.untilHolds('client', count), fromSpire.untilHolds('server', count)]);

  test('of the site is followed by SPIRE', async () => {
    const [called, calling] = [fromSpire.authorities, fromSite.authorities];
    await pair.run('trust', 'rotate', 'prepare');
    await pair.spireRefreshes();
    await spireHolds(2);
    await pair.run('trust', 'rotate', 'activate');
    await pair.run('trust', 'rotate', 'taint');
    // Both workloads of the site have another SVID, and use it.
    await fromSpire.untilAnother('server', called);
    await fromSite.untilAnother('client', calling);
    await pair.run('trust', 'rotate', 'revoke');
    // The endpoint itself presents a certificate of the new authority by now.
    await pair.spireRefreshes();
    await spireHolds(1);
  });

  test('of SPIRE is followed by the site', async () => {
    const [called, calling] = [fromSite.authorities, fromSpire.authorities];
    const x509 = async (...args: readonly string[]): Promise<string> =>
      pair.spire.run('localauthority', 'x509', ...args, '-output', 'json');
    const { active } = JSON.parse(await x509('show')) as {
      readonly active: { readonly authority_id: string };
    };
    const { prepared_authority: prepared } = JSON.parse(await x509('prepare')) as {
      readonly prepared_authority: { readonly authority_id: string };
    };
    await pair.siteRefreshes();
    await siteHolds(2);
    // SPIRE's own agent and workloads must hold it too before anything is signed with it.
    await atSpire.until(({ bundles }) => bundles?.['hamburg.example'] === 2);
    const presented = await pair.spire.presented();
    await x509('activate', '-authorityID', prepared.authority_id);
    await x509('taint', '-authorityID', active.authority_id);
    await fromSite.untilAnother('server', called);
    await fromSpire.untilAnother('client', calling);
    // SPIRE's server looks at its own certificate every few seconds. Revoked before that, its endpoint
    // would present one that nobody believes.
    await until(async () => (await pair.spire.presented()) !== presented);
    await x509('revoke', '-authorityID', active.authority_id);
    await until(async () => {
      await pair.siteRefreshes();
      return (await pair.federation()).status?.authorities?.length === 1;
    });
    await siteHolds(1);
  });

  test('fails not one call, in either direction', async () => {
    for (const calls of [fromSpire, fromSite]) {
      const made = await calls.finish();
      assert.deepEqual(made.failures, []);
      assert(made.calls > 50, `${made.calls} calls`);
    }
  });

  /** A JWT-SVID of a workload of that side; for an audience of its own, so that none is from before. */
  let audiences = 0;
  const token = async (side: 'site' | 'spire'): Promise<Token> => {
    const audience = `reports-${++audiences}`;
    const { code, stdout, stderr } = await pair.api(side, 'fetch', 'jwt', '-audience', audience);
    assert.equal(code, 0, stderr);
    return { audience, text: /^\s*(eyJ\S+)$/m.exec(stdout)?.[1] ?? '' };
  };
  const isBelieved = async (
    side: 'site' | 'spire',
    { audience, text }: Token,
  ): Promise<boolean> => {
    const question = ['-audience', audience, '-svid', text];
    return (await pair.api(side, 'validate', 'jwt', ...question)).code === 0;
  };

  test('of the JWT keys of the site is followed by SPIRE', async () => {
    const first = await token('site');
    assert(await isBelieved('spire', first));
    await pair.run('trust', 'rotate', 'prepare', '--jwt');
    await pair.spireRefreshes();
    await pair.run('trust', 'rotate', 'activate', '--jwt');
    const next = await token('site');
    assert.notEqual(keyOf(next), keyOf(first));
    await until(() => isBelieved('spire', next));
    assert(await isBelieved('spire', first));
    await pair.run('trust', 'rotate', 'taint', '--jwt');
    await pair.run('trust', 'rotate', 'revoke', '--jwt');
    await pair.spireRefreshes();
    await until(async () => !(await isBelieved('spire', first)));
    assert(await isBelieved('spire', next));
  });

  test('of the JWT keys of SPIRE is followed by the site', async () => {
    const jwt = async (...args: readonly string[]): Promise<string> =>
      pair.spire.run('localauthority', 'jwt', ...args, '-output', 'json');
    const first = await token('spire');
    assert(await isBelieved('site', first));
    const { prepared_authority: prepared } = JSON.parse(await jwt('prepare')) as {
      readonly prepared_authority: { readonly authority_id: string };
    };
    await pair.siteRefreshes();
    await jwt('activate', '-authorityID', prepared.authority_id);
    const next = await token('spire');
    assert.notEqual(keyOf(next), keyOf(first));
    assert(await isBelieved('site', next));
    assert(await isBelieved('site', first));
    await jwt('taint', '-authorityID', keyOf(first));
    await jwt('revoke', '-authorityID', keyOf(first));
    await until(async () => {
      await pair.siteRefreshes();
      return !(await isBelieved('site', first));
    });
    assert(await isBelieved('site', next));
  });
});

/** The newest state that a workload was told. */
class Latest {
  #context: Context = {};
  readonly #lines: LineReader;

  constructor(lines: LineReader) {
    this.#lines = lines;
  }

  async until(isSo: (context: Context) => boolean): Promise<void> {
    while (!isSo(this.#context)) this.#context = await this.#lines.next<Context>();
  }
}

interface Token {
  readonly audience: string;
  readonly text: string;
}

function keyOf({ text }: Token): string {
  const header = Buffer.from(text.split('.')[0] ?? '', 'base64url').toString('utf8');
  return (JSON.parse(header) as { readonly kid: string }).kid;
}
