import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { socketOwner } from '../../core/access/identity.ts';
import { HansaError } from '../../core/errors/error.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { FederationClient } from '../client/federation-client.ts';
import { notesOf, rowsOf } from '../commands/peer-catalog.ts';
import { peerCatalogRoute, type PeerCatalog } from './peer-catalog-route.ts';

const catalog = {
  offers: [{ name: 'db', spiffeID: 'spiffe://lubeck.example/db', scopes: ['read'], port: 5432 }],
  clusters: [{ name: 'app1', scopes: ['read'] }],
  leftOut: 0,
};
const report = { contractVersions: [1], capabilities: ['catalog'], extensionSlugs: [] };

/** A peer that gives these answers, in order. */
async function ask(
  answers: readonly { readonly status: number; readonly body: object }[],
  peer: object = {},
  denials: AuditDraft[] = [],
): Promise<{ readonly asked: readonly string[]; readonly told: PeerCatalog }> {
  const asked: string[] = [];
  const connections = {
    call: async (
      _site: unknown,
      { path }: { readonly path: string },
      { maxBytes }: { readonly maxBytes: number },
    ) => {
      asked.push(path);
      const answer = answers[asked.length - 1];
      if (answer === undefined) throw new HansaError('HANSA_UNREACHABLE', 'no answer');
      const body = Buffer.from(JSON.stringify(answer.body));
      if (body.length > maxBytes) {
        throw new HansaError('HANSA_TOO_LARGE', `it has more than ${maxBytes} bytes.`);
      }
      return { status: answer.status, headers: {}, body };
    },
  };
  const client = new FederationClient({
    connections,
    settings: { callTimeoutMs: 1000 },
    audit: { deny: (draft) => denials.push(draft) },
  });
  const peers = {
    get: async (name: string) =>
      name === 'lubeck.example'
        ? ({
            metadata: { name },
            spec: { url: 'https://lubeck.example:8443/base', desiredState: 'active' },
            status: { state: 'active' },
            ...peer,
          } as unknown as FederationPeer)
        : undefined,
  };
  const { body } = await callRoute(peerCatalogRoute({ peers, client }), {
    caller: socketOwner,
    params: { name: 'lubeck.example' },
  });
  return { asked, told: JSON.parse(String(body)) as PeerCatalog };
}

suite('the catalog of a peer', () => {
  test('has what the peer tells, and what it can do', async () => {
    const { asked, told } = await ask([
      { status: 200, body: catalog },
      { status: 200, body: report },
    ]);
    assert.deepEqual(asked, [
      '/base/hansa/federation/v1/catalog',
      '/base/hansa/federation/v1/capabilities',
    ]);
    assert.deepEqual(told, { name: 'lubeck.example', denied: false, ...catalog, ...report });
    assert.deepEqual(rowsOf(told), [
      ['offer', 'db', 'read', 'spiffe://lubeck.example/db', '5432', ''],
      ['cluster', 'app1', 'read', '', '', ''],
    ]);
    assert.deepEqual(notesOf(told), []);
  });

  test('that is denied is an answer, not a failure', async () => {
    const denied = { status: 403, body: { reason: 'Forbidden', message: 'Denied.' } };
    const { told } = await ask([denied]);
    assert.deepEqual(told, { name: 'lubeck.example', denied: true });
    assert.match(notesOf(told)[0] ?? '', /is reachable and denied/);
  });

  test('that is empty or too long says so', () => {
    const told = { name: 'a.example', denied: false, ...catalog, ...report } as PeerCatalog;
    const none = { ...told, offers: [], clusters: [], leftOut: 3 } as PeerCatalog;
    assert.deepEqual(notesOf(none), [
      'a.example offers nothing that this site may use.',
      'The catalog leaves out 3 more entries.',
    ]);
  });

  for (const [what, answers, code] of [
    ['does not answer', [], 'HANSA_UNREACHABLE'],
    [
      'no longer accepts this site',
      [{ status: 403, body: { reason: 'PeerRefused', message: 'x' } }],
      'HANSA_PEER_REFUSED',
    ],
    ['has a fault', [{ status: 500, body: {} }], 'HANSA_PEER_UNREACHABLE'],
    ['is of an older version', [{ status: 404, body: {} }], 'HANSA_PEER_UNREACHABLE'],
    [
      'tells of offers of others',
      [
        {
          status: 200,
          body: {
            ...catalog,
            offers: [{ ...catalog.offers[0], spiffeID: 'spiffe://b.example/db' }],
          },
        },
        { status: 200, body: report },
      ],
      'HANSA_BAD_REQUEST',
    ],
    [
      'reports no capabilities',
      [
        { status: 200, body: catalog },
        { status: 200, body: { ...report, capabilities: ['\u001b[2J'] } },
      ],
      'HANSA_BAD_REQUEST',
    ],
  ] as const) {
    test(`fails where the peer ${what}`, async () => {
      const denials: AuditDraft[] = [];
      await assert.rejects(ask(answers, {}, denials), { code });
      // A peer that cannot answer, or does not want to, has sent nothing that this site refuses.
      assert.deepEqual(
        denials.map((row) => row.code),
        code === 'HANSA_BAD_REQUEST' ? [code] : [],
      );
    });
  }

  test('that is too large is refused, audited and explained', async () => {
    const denials: AuditDraft[] = [];
    const capabilities = Array.from({ length: 200_000 }, (_, at) => `${'x'.repeat(45)}${at}`);
    const answers = [
      { status: 200, body: catalog },
      { status: 200, body: { ...report, capabilities } },
    ];
    await assert.rejects(ask(answers, {}, denials), {
      code: 'HANSA_TOO_LARGE',
      message: /more than 16384 bytes/,
    });
    const [row] = denials;
    assert.deepEqual(
      [row?.actor.user, row?.verb, row?.name, row?.outcome],
      ['spiffe://lubeck.example/hansa/site', 'peer.capabilities', 'lubeck.example', 'deny'],
    );
    assert.match(row?.reason ?? '', /more than 16384 bytes/);
  });

  for (const [what, peer] of [
    ['is suspended', { status: { state: 'suspended' } }],
    ['shall be suspended', { spec: { url: 'https://a.example', desiredState: 'suspended' } }],
    ['is revoked', { status: { state: 'revoked' } }],
    ['has no state', { status: {} }],
  ] as const) {
    test(`is not asked for where the peer ${what}`, async () => {
      await assert.rejects(ask([{ status: 200, body: catalog }], peer), {
        code: 'HANSA_PEER_STATE',
      });
    });
  }
});
