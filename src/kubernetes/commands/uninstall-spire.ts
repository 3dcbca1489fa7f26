// The work of `hansa spire uninstall`: removes the mark of a cluster, and the rights of the site there.

import type { Command } from 'commander';
import { clusterKind } from '../../api/kinds/cluster.ts';
import { printable } from '../../core/command/columns.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import { serverOf } from '../../core/kube/registration/cluster-object.ts';
import type { CommandKit } from '../../core/plane/command-kit.ts';
import { objectPath } from '../../core/plane/site-client.ts';
import { trustDomainOf } from '../client/trust-domain.ts';
import { spireRoleName } from '../manifests/spire-manifests.ts';
import { spirePolicyName } from '../manifests/spire-namespace-policy.ts';
import { withConnections } from './connections.ts';
import { type InstallOptions, registered, spireManager } from './install-spire.ts';

export async function uninstallSpire(request: {
  readonly kit: CommandKit;
  readonly command: Command;
  readonly name: string;
  readonly options: InstallOptions;
}): Promise<void> {
  const { kit, command, name, options } = request;
  await withConnections(kit.io, options, ({ cluster: { kube, loaded } }) =>
    kit.withClient(command, async (client) => {
      const { spec } = await registered(client, name, serverOf(loaded.endpoint));
      const role = spireRoleName(await trustDomainOf(client));
      await kit.confirm(command, `Stop operating the SPIRE server of ${name}?`);
      await client.request({
        method: 'PATCH',
        path: objectPath(clusterKind, name),
        query: { fieldManager: spireManager },
        contentType: 'application/merge-patch+json',
        body: { spec: { spire: null } },
      });
      const rbac = '/apis/rbac.authorization.k8s.io/v1';
      const { namespace } = spec.spire ?? { namespace: 'spire' };
      const inside = kubePath`/namespaces/${namespace}`;
      for (const [place, kinds] of [
        ['', ['clusterrolebindings', 'clusterroles']],
        [inside, ['rolebindings', 'roles']],
      ] as const) {
        for (const plural of kinds) {
          await kube.delete(`${rbac}${place}${kubePath`/${plural}/${role}`}`);
        }
      }
      // The binding first: a policy without a binding judges nothing.
      for (const plural of [
        'validatingadmissionpolicybindings',
        'validatingadmissionpolicies',
      ] as const) {
        const admission = '/apis/admissionregistration.k8s.io/v1';
        await kube.delete(`${admission}${kubePath`/${plural}/${spirePolicyName}`}`);
      }
      kit.print(
        kit.renderValue({ name }, options.output) ??
          printable(
            `The site no longer operates the SPIRE server of ${name}. The server stays as it is.`,
          ),
      );
    }),
  );
}
