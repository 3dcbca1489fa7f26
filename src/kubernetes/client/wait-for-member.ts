// Waits until an API server serves new CRDs, and until the site sees a member.

import { type Clock, sleep } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import type { Manifest } from '../../core/kube/manifests/manifest.ts';
import { manifestPath } from '../../core/kube/manifests/manifest-path.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { leaseName } from '../names.ts';
import { orMissing } from './cluster-facts.ts';
import { leagueInfo, type MemberInfo } from './league-info.ts';

const pauseMs = 250;
/** An API server needs a second or two, more under load. */
const crdTries = 120;
/** The site connects and reads all objects. */
const memberTries = 80;
const leaseTries = 40;

type Crd = KubeObject & {
  readonly status?: {
    readonly conditions?: readonly { readonly type?: unknown; readonly status?: unknown }[];
  };
};

/** Of the CRDs among the manifests. */
export async function awaitEstablished(
  kube: KubeClient,
  clock: Clock,
  manifests: readonly Manifest[],
): Promise<void> {
  for (const manifest of manifests) {
    if (manifest.kind !== 'CustomResourceDefinition') continue;
    const path = manifestPath(manifest);
    for (let attempt = 1; !isEstablished(await kube.get<Crd>(path)); attempt++) {
      if (attempt === crdTries) {
        throw new HansaError(
          'HANSA_UNAVAILABLE',
          `The API server does not serve the CRD ${manifest.metadata.name} after ${(crdTries * pauseMs) / 1000} seconds. To see why: kubectl describe crd ${manifest.metadata.name}. Then run the command again: it goes on from here.`,
        );
      }
      await sleep(clock, pauseMs);
    }
  }
}

const isEstablished = ({ status }: Crd): boolean =>
  status?.conditions?.some((each) => each.type === 'Established' && each.status === 'True') ??
  false;

/** Until it is Ready or refused. The last state, or undefined where the site does not list it. */
export async function awaitMember(
  client: SiteClient,
  clock: Clock,
  id: string,
): Promise<MemberInfo | undefined> {
  for (let attempt = 1; ; attempt++) {
    const member = await memberOf(client, id);
    const isSettled = member?.state === 'Ready' || member?.state === 'Refused';
    if (isSettled || attempt === memberTries) return member;
    await sleep(clock, pauseMs);
  }
}

/** Until the site does not list it. Returns whether it did not. */
export async function awaitRelease(client: SiteClient, clock: Clock, id: string): Promise<boolean> {
  for (let attempt = 1; ; attempt++) {
    if ((await memberOf(client, id)) === undefined) return true;
    if (attempt === memberTries) return false;
    await sleep(clock, pauseMs);
  }
}

async function memberOf(client: SiteClient, id: string): Promise<MemberInfo | undefined> {
  return (await leagueInfo(client)).members.find(({ clusterID }) => clusterID === id);
}

type Lease = KubeObject & { readonly spec?: { readonly holderIdentity?: unknown } };

/** Until no process of this site leads the cluster. Gives up after a while: the site may be down. */
export async function awaitLease(
  kube: KubeClient,
  clock: Clock,
  namespace: string,
  trustDomain: string,
): Promise<void> {
  const path = kubePath`/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${leaseName}`;
  for (let attempt = 1; attempt < leaseTries; attempt++) {
    const lease = await orMissing(() => kube.get<Lease>(path));
    const holder = lease?.spec?.holderIdentity;
    if (typeof holder !== 'string' || !holder.startsWith(`${trustDomain}/`)) return;
    await sleep(clock, pauseMs);
  }
}
