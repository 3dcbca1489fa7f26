// Tests the JWT profile with go-spiffe, the reference client: it fetches and validates tokens, and
// watches keys across a rotation. Both implementations must also agree on every sample token of
// src/core/identity/jwt.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { spiffeFederationKind } from '../../src/api/kinds/spiffe-federation.ts';
import { workloadEntryKind } from '../../src/api/kinds/workload-entry.ts';
import { encodeJwtBundle } from '../../src/core/identity/bundle/spiffe-bundle.ts';
import {
  sampleAudience,
  tokenBundles,
  tokenSamples,
} from '../../src/core/identity/jwt/test-tokens.ts';
import { missingTools, requireTool } from './tool.ts';
import { finish, startWorkloadSite, type WorkloadSite } from './workload-site.ts';

interface Token {
  readonly id: string;
  readonly hint: string;
  readonly audience: readonly string[];
  readonly token: string;
}

interface Verdict {
  readonly id?: string;
  readonly refusal?: string;
  readonly claims?: Readonly<Record<string, unknown>>;
  /** What go-spiffe itself says. */
  readonly ownId?: string;
  readonly ownRefusal?: string;
}

interface Keys {
  readonly jwtBundles: Readonly<Record<string, readonly string[]>>;
}

const uid = process.getuid?.() ?? 0;
const skip = await missingTools('go-spiffe');

suite('go-spiffe and JWT-SVIDs', { skip }, () => {
  let lubeck: WorkloadSite;
  let bruges: WorkloadSite;
  let web: string;
  let abroad: string;

  before(async () => {
    lubeck = await startWorkloadSite('lubeck.example');
    bruges = await startWorkloadSite('bruges.example');
    [web, abroad] = await Promise.all([
      lubeck.program('web', 'go-spiffe'),
      bruges.program('db', 'go-spiffe'),
    ]);
    await entry(lubeck, 'web', web);
    await entry(bruges, 'db', abroad);
  });
  after(async () => {
    await lubeck?.stop();
    await bruges?.stop();
  });

  async function entry(
    site: WorkloadSite,
    name: string,
    path: string,
    more: object = {},
  ): Promise<void> {
    const answer = await site.apply(workloadEntryKind, name, {
      spiffeID: `spiffe://${site.trustDomain}/${name}`,
      selectors: [`unix:uid:${uid}`, `unix:path:${path}`],
      ...more,
    });
    assert.ok(answer.status === 201 || answer.status === 200, answer.text);
  }

  async function tokenOf(site: WorkloadSite, program: string, ...args: string[]): Promise<Token> {
    const { code, lines, stderr } = await site.run(program, 'jwt', ...args);
    assert.equal(code, 0, stderr);
    return lines[0] as Token;
  }

  async function judge(audience: string, token: string): Promise<Verdict> {
    const { code, lines, stderr } = await lubeck.run(web, 'jwt-validate', audience, token);
    assert.equal(code, 0, stderr);
    return lines[0] as Verdict;
  }

  test('it fetches a token, which both the site and itself believe', async () => {
    const { id, hint, audience, token } = await tokenOf(lubeck, web, 'reports');
    assert.deepEqual([id, hint, audience], ['spiffe://lubeck.example/web', 'web', ['reports']]);
    const verdict = await judge('reports', token);
    assert.equal(verdict.id, 'spiffe://lubeck.example/web');
    assert.equal(verdict.ownId, 'spiffe://lubeck.example/web');
    assert.equal(verdict.claims?.['sub'], 'spiffe://lubeck.example/web');
  });

  test('it fetches a token for the identity that it names, and none that is not its own', async () => {
    const { id } = await tokenOf(lubeck, web, 'reports', 'spiffe://lubeck.example/web');
    assert.equal(id, 'spiffe://lubeck.example/web');
    const other = await lubeck.run(web, 'jwt', 'reports', 'spiffe://lubeck.example/db');
    assert.equal(other.code, 1);
    assert.match(other.stderr, /PermissionDenied/);
  });

  test('both refuse a token for another audience', async () => {
    const { token } = await tokenOf(lubeck, web, 'reports');
    const verdict = await judge('db', token);
    assert.match(verdict.refusal ?? '', /InvalidArgument.*audience; JWT-SVID §3\.2/);
    assert.match(verdict.ownRefusal ?? '', /expected audience/);
  });

  test('both believe a token of another trust domain exactly while that is federated with', async () => {
    const { token } = await tokenOf(bruges, abroad, 'reports');
    const refused = await judge('reports', token);
    assert.match(refused.refusal ?? '', /no usable bundle of its trust domain bruges\.example/);
    assert.match(refused.ownRefusal ?? '', /no bundle found for trust domain/);
    await lubeck.apply(spiffeFederationKind, 'bruges.example', {
      bundleSource: { static: { bundle: await bruges.bundle() } },
    });
    await entry(lubeck, 'web', web, { federatesWith: ['bruges.example'] });
    const watch = lubeck.follow(web, 'jwt-bundles-watch');
    while ((await watch.next<Keys>()).jwtBundles['bruges.example'] === undefined);
    const believed = await judge('reports', token);
    assert.equal(believed.id, 'spiffe://bruges.example/db');
    assert.equal(believed.ownId, 'spiffe://bruges.example/db');
    await lubeck.delete(spiffeFederationKind.plural, 'bruges.example');
    while ((await watch.next<Keys>()).jwtBundles['bruges.example'] !== undefined);
    const over = await judge('reports', token);
    assert.match(over.refusal ?? '', /no usable bundle of its trust domain bruges\.example/);
    assert.match(over.ownRefusal ?? '', /no bundle found for trust domain/);
  });

  test('it is pushed each step of a rotation, and tokens are believed throughout', async () => {
    const watch = lubeck.follow(web, 'jwt-bundles-watch');
    const keys = async (): Promise<readonly string[]> =>
      (await watch.next<Keys>()).jwtBundles['lubeck.example'] ?? [];
    const [first] = await keys();
    const early = await tokenOf(lubeck, web, 'a');
    await lubeck.rotate('prepare');
    assert.equal((await keys()).length, 2);
    await lubeck.rotate('activate');
    const later = await tokenOf(lubeck, web, 'b');
    assert.equal((await judge('a', early.token)).ownId, 'spiffe://lubeck.example/web');
    assert.equal((await judge('b', later.token)).ownId, 'spiffe://lubeck.example/web');
    await lubeck.rotate('taint');
    await lubeck.rotate('revoke');
    const left = await keys();
    assert.equal(left.length, 1);
    assert.notEqual(left[0], first);
    const verdict = await judge('a', early.token);
    assert.match(verdict.refusal ?? '', /unknown-key/);
    assert.match(verdict.ownRefusal ?? '', /no JWT authority/);
    assert.equal((await judge('b', later.token)).ownId, 'spiffe://lubeck.example/web');
  });
});

suite('go-spiffe and our own judgement of tokens', { skip }, () => {
  test('agree on every sample, but for those whose difference is named', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'hansa-tokens-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const file = join(folder, 'question.json');
    const samples = tokenSamples(Date.now());
    writeFileSync(
      file,
      JSON.stringify({
        audience: sampleAudience,
        bundles: Object.fromEntries(
          tokenBundles.map((one) => [one.trustDomain.name, JSON.parse(encodeJwtBundle(one))]),
        ),
        tokens: samples.map(({ token }) => token),
      }),
    );
    const program = await requireTool('go-spiffe');
    const { code, stderr, lines } = await finish(program, ['jwt-judge', file], process.env);
    assert.equal(code, 0, stderr);
    assert.equal(lines.length, samples.length);
    const wrong = samples.flatMap(({ name, rule, goSpiffeDiffers }, at) => {
      const { id, refusal } = lines[at] as Verdict;
      const agrees = (id === undefined) === (rule !== undefined);
      const told = `a token ${name}: here ${rule ?? 'good'}, there ${id ?? refusal}`;
      if (agrees && goSpiffeDiffers !== undefined) return [`${told}, and no difference`];
      return agrees || goSpiffeDiffers !== undefined ? [] : [told];
    });
    assert.deepEqual(wrong, []);
  });
});
