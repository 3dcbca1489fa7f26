// The check of `hansa doctor` for marked clusters: whether the site follows their objects, and accepts them. It
// asks the site and calls no cluster.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { printable } from '../../core/command/columns.ts';
import { type Finding, ok, problem, type SiteCheck, warning } from '../../core/plane/doctor.ts';
import { markedClusters, type MarkedInfo } from '../client/marked-info.ts';

const check = 'synced clusters';
/** More would hide the other findings. */
const maxTold = 5;

export const syncCheck: SiteCheck = {
  name: check,
  follows: 'members',
  run: async ({ client, running }) => {
    if (!running) return [];
    const { items } = await client.list(clusterKind);
    return judgeSync(items as unknown as readonly Cluster[]);
  },
};

/** A site without marked clusters has nothing to say about them. */
export function judgeSync(clusters: readonly Cluster[]): readonly Finding[] {
  const marked = markedClusters(clusters);
  if (marked.length === 0) return [];
  const found = marked.flatMap((each) => findingsOf(each));
  if (found.length > 0) return found.slice(0, maxTold);
  const objects = marked.reduce((sum, { accepted }) => sum + accepted, 0);
  return [ok(check, `${marked.length}, with ${objects} ${objects === 1 ? 'object' : 'objects'}`)];
}

function findingsOf({ name, state, message, refused, kept }: MarkedInfo): readonly Finding[] {
  if (state !== 'True') {
    return [
      state === 'False'
        ? problem(check, `the site cannot follow objects of ${name}`, printable(message))
        : warning(check, `the site has not read the objects of ${name} yet`, printable(message)),
    ];
  }
  return [
    ...(refused === 0
      ? []
      : [
          warning(
            check,
            `the site refuses ${refused} ${refused === 1 ? 'object' : 'objects'} of ${name}`,
            'The condition Accepted in their status says why: kubectl get hansa in the cluster.',
          ),
        ]),
    ...(kept === 0
      ? []
      : [
          warning(
            check,
            `${kept} ${kept === 1 ? 'object' : 'objects'} came from ${name} and ${kept === 1 ? 'is' : 'are'} not there any more`,
            `Apply them there again, or delete them here: hansa delete KIND -l clusters.hansa.dev/origin=${name}`,
          ),
        ]),
  ];
}
