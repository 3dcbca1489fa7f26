// Removes a relationship from the SPIRE server: ends trust at once, keeps what a return needs, and never lets a silent
// endpoint block SPIRE.

import { toBinary } from '@bufbuild/protobuf';
import { type Bundle, BundleSchema } from '../../../proto/gen/spire_server_pb.ts';
import { type ApplyContext, messageOf, timeOf } from './apply-context.ts';
import { misfitOf } from './bundle-message.ts';
import { type Fetches, isTimeout } from './fetches.ts';
import type { SidecarRecord } from './sidecar-record.ts';
import { type Endpoint, isNotFound, type SpireApi } from './spire-api.ts';

/** After this time, an endpoint counts as silent. */
const fetchEndsWithinMs = 5000;

/** Takes the trust domain from all entries, and records what a return needs. Undefined: it failed, and is reported. */
export async function endTrust(
  { spire, store, failed }: ApplyContext,
  record: SidecarRecord,
): Promise<SidecarRecord | undefined> {
  const { trustDomain } = record;
  try {
    const bundle = await spire.bundle(trustDomain);
    const entries = await spire.entries([trustDomain]);
    const ids = new Set([...(record.entries ?? []), ...entries.map(({ id }) => id)]);
    const { withheld: _, ...rest } = record;
    const kept: SidecarRecord = {
      ...rest,
      ...(bundle !== undefined &&
        misfitOf(bundle, trustDomain) === undefined && { bundle: encodeBundle(bundle) }),
      ...(ids.size > 0 && { entries: [...ids] }),
    };
    // Still owned: a sidecar that ends now removes it at its next start. Without the record, a return needs a new
    // bootstrap. That trust ends is more important.
    await store.save(kept).catch((error: unknown) => {
      failed(trustDomain, `what a return needs could not be stored: ${messageOf(error)}`);
    });
    const without = entries.map(({ federatesWith, ...entry }) => ({
      ...entry,
      federatesWith: federatesWith.filter((name) => name !== trustDomain),
    }));
    const results = await spire.setFederatesWith(without);
    const refused = results.find((result) => result !== undefined && !isNotFound(result));
    // SPIRE takes the trust domain from these entries too when it deletes the bundle.
    if (refused !== undefined) {
      failed(trustDomain, `SPIRE refused to change an entry: ${messageOf(refused)}`);
    }
    return kept;
  } catch (error) {
    failed(trustDomain, `it could not be removed: ${messageOf(error)}`);
    return undefined;
  }
}

/**
 * Deletes the relationship and the bundle: deleting the relationship alone would leave the trust.
 *
 * SPIRE ends the fetch of a deleted relationship first, and meanwhile takes up no other relationship and refreshes
 * none that it is asked for. So the relationship stays while a fetch hangs, without a bundle.
 */
export async function removeOne(context: ApplyContext, kept: SidecarRecord): Promise<void> {
  const { spire, store, failed, fetches } = context;
  const { trustDomain } = kept;
  try {
    if (await isSilent(fetches, trustDomain)) {
      await disarm(spire, kept);
      await deleteBundle(spire, trustDomain);
      failed(
        trustDomain,
        'no workload trusts it any more, and SPIRE still waits for its endpoint, which is silent. The relationship goes when that connection ends',
      );
      return;
    }
    const [deleted] = await spire.deleteRelationships([trustDomain]);
    if (deleted !== undefined && !isNotFound(deleted)) throw deleted;
    await deleteBundle(spire, trustDomain);
    // SPIRE may be fetching the bundle, and would store it again. This call waits for that: it fails, as there
    // is no relationship any more.
    const isBlocked = await isSilent(fetches, trustDomain);
    await deleteBundle(spire, trustDomain);
    if (isBlocked) {
      failed(
        trustDomain,
        'no workload trusts it any more, but SPIRE still waits for its endpoint, which is silent. Until that connection ends, SPIRE takes up no new relationship. To end it, restart the SPIRE server: delete its Pod spire-server-0',
      );
      return;
    }
    await store.save({ ...kept, owned: false, since: timeOf(context) });
  } catch (error) {
    failed(trustDomain, `it could not be removed: ${messageOf(error)}`);
  }
}

/** Whether SPIRE waits for an endpoint that does not answer. */
async function isSilent(fetches: Fetches, trustDomain: string): Promise<boolean> {
  // Known from before: nothing more to wait for.
  if (fetches.isRunning(trustDomain) && fetches.isLate(trustDomain)) return true;
  try {
    await fetches.within(trustDomain, fetchEndsWithinMs);
    return false;
  } catch (error) {
    if (!isTimeout(error)) return false;
    fetches.markLate(trustDomain);
    return true;
  }
}

/** With https_spiffe, SPIRE cannot fetch without a bundle. With https_web it could, and would store the bundle again. */
async function disarm(spire: SpireApi, record: SidecarRecord): Promise<void> {
  const { trustDomain, bundleEndpointURL, profile } = record;
  if (profile === 'https_spiffe') return;
  const endpointSpiffeID = `spiffe://${trustDomain}/removed`;
  const endpoint = { trustDomain, bundleEndpointURL, profile: 'https_spiffe', endpointSpiffeID };
  const [changed] = await spire.updateRelationships([endpoint as Endpoint]);
  if (changed !== undefined && !isNotFound(changed)) throw changed;
}

async function deleteBundle(spire: SpireApi, trustDomain: string): Promise<void> {
  const deleted = await spire.deleteBundle(trustDomain);
  if (deleted !== undefined && !isNotFound(deleted)) throw deleted;
}

const encodeBundle = (bundle: Bundle): string =>
  Buffer.from(toBinary(BundleSchema, bundle)).toString('base64');
