// What tests with agents do at a site: create objects and join tokens.

import { adminClient, type ApiClient, resources } from './api-client.ts';
import type { Joining } from './agent-process.ts';
import { join } from 'node:path';
import type { PeeringSite } from './peering-pair.ts';

/** Creates or replaces an object. */
export async function applyTo(
  site: PeeringSite,
  kind: string,
  name: string,
  spec: object,
  labels?: Readonly<Record<string, string>>,
): Promise<void> {
  const metadata = { name, ...(labels !== undefined && { labels }) };
  const object = { apiVersion: 'hansa.dev/v1alpha1', kind, metadata, spec };
  await site.must(['apply', '-f', '-'], JSON.stringify(object));
}

/** With a client of its own, which is closed afterwards. */
export async function asAdmin<T>(
  site: PeeringSite,
  use: (admin: ApiClient) => Promise<T>,
): Promise<T> {
  const admin = adminClient(site.daemon.dataDir);
  try {
    return await use(admin);
  } finally {
    admin.close();
  }
}

/** Creates a token with these labels, and says how an agent of this name joins with it. */
export async function joiningAt(
  site: PeeringSite,
  name: string,
  labels: Readonly<Record<string, string>>,
): Promise<Joining> {
  const token = `of-${name}`;
  return asAdmin(site, async (admin) => {
    const created = await admin.request('POST', `${resources}/jointokens`, {
      body: {
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'JoinToken',
        metadata: { name: token },
        spec: { method: 'secret', roles: ['agent'], expiresAt: '2099-01-01T00:00:00Z', labels },
      },
    });
    if (created.status !== 201) throw new Error(created.text);
    const made = await admin.request('POST', `/hansa/v1/join/secrets/${token}`, {});
    const { secret } = JSON.parse(made.text) as { readonly secret: string };
    return {
      url: site.federationUrl,
      trustDomain: site.name,
      caFile: join(site.daemon.dataDir, 'ca.pem'),
      token,
      name,
      secret,
    };
  });
}
