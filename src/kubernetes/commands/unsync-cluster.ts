// The work of `hansa cluster unsync`: removes the mark of a cluster and the role that it had for it.

import type { Command } from 'commander';
import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { roleBindingKind } from '../../api/kinds/role-binding.ts';
import { clusterOriginKey } from '../../core/access/origin.ts';
import { printable } from '../../core/command/columns.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { findObject, objectPath } from '../../core/plane/site-client.ts';
import { trustDomainOf } from '../client/trust-domain.ts';
import { syncRoleName } from '../manifests/sync-manifests.ts';
import { syncBindingName, syncManager } from './sync-cluster.ts';

export interface UnsyncOptions {
  readonly output: OutputFormat;
}

export interface UnsyncRequest {
  readonly kit: CommandKit;
  readonly command: Command;
  readonly name: string;
  readonly options: UnsyncOptions;
}

export async function unsyncCluster(request: UnsyncRequest): Promise<void> {
  const { kit, command, name, options } = request;
  await kit.withClient(command, async (client) => {
    const cluster = await findObject<Cluster>(client, clusterKind, name);
    if (cluster === undefined) {
      throw new HansaError('HANSA_NOT_FOUND', `The site has no cluster ${name}.`);
    }
    const kinds = cluster.spec.sync?.kinds ?? [];
    await kit.confirm(command, `Stop to take over objects from ${name}?`);
    await client.request({
      method: 'PATCH',
      path: objectPath(clusterKind, name),
      query: { fieldManager: syncManager },
      contentType: 'application/merge-patch+json',
      body: { spec: { sync: null } },
    });
    const binding = syncBindingName(name);
    if ((await findObject(client, roleBindingKind, binding)) !== undefined) {
      await client.delete(roleBindingKind, binding);
    }
    kit.print(
      kit.renderValue({ name, kinds }, options.output) ??
        printable(`The site takes over no objects from ${name} any more.`),
    );
    const role = syncRoleName(await trustDomainOf(client));
    for (const kind of kinds) {
      kit.note(
        printable(
          `To delete what came from there: hansa delete ${kind} -l ${clusterOriginKey}=${name}`,
        ),
      );
    }
    kit.note(
      printable(
        `To take the rights of the site away in the cluster: kubectl delete clusterrolebinding,clusterrole ${role}`,
      ),
    );
  });
}
