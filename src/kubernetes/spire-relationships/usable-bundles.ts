// Leaves out bundles of the first contact that no SPIRE server could use. spire-controller-manager ignores an object
// with a bundle that it cannot read, and then deletes the relationship of before. Pure.

import { HansaError } from '../../core/errors/error.ts';
import type { WithPeerBundles } from '../spire-peers/peer-bundles.ts';
import type { Warning } from '../spire/compile-conditions.ts';
import { bundleOfDocument } from '../spire/server-bundle.ts';

export function withUsableBundles({ relationships, warnings }: WithPeerBundles): WithPeerBundles {
  const found: Warning[] = [];
  const list = relationships.list.map((relationship) => {
    const { bundle, trustDomain, from } = relationship;
    if (bundle === undefined) return relationship;
    try {
      bundleOfDocument(bundle, trustDomain);
      return relationship;
    } catch (error) {
      if (!(error instanceof HansaError)) throw error;
      const message = `${from} has a bundle of ${trustDomain} that cannot be used. ${error.message} To get the right one: hansa spire bootstrap.`;
      found.push({ reason: 'Relationship', message });
      const { bundle: _, ...others } = relationship;
      return others;
    }
  });
  return { relationships: { ...relationships, list }, warnings: [...warnings, ...found] };
}
