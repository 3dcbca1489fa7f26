// Starts a controller for each member whose objects are read, and stops it when the member is refused,
// leaves, or gets another connection.

import type { Log } from '../../core/log/log.ts';
import type {
  Controller,
  ControllerHost,
  Leadership,
  StartedController,
} from '../../core/reconcile/controller.ts';
import type { ConnectedMember } from '../members/connected-member.ts';
import type { MemberSet } from '../members/member-set.ts';

export interface MemberControllersOptions {
  readonly members: Pick<MemberSet, 'get' | 'list' | 'onChange'>;
  readonly host: ControllerHost;
  readonly controllerOf: (member: ConnectedMember) => Controller;
  readonly leadershipOf: (member: ConnectedMember) => Leadership;
  readonly log: Log;
}

interface Started {
  readonly member: ConnectedMember;
  readonly controller: StartedController;
}

export class MemberControllers {
  readonly #options: MemberControllersOptions;
  readonly #started = new Map<string, Started>();
  /** Names of controllers are unique, so the next one of a member waits for the end of the last one. */
  readonly #ending = new Map<string, Promise<void>>();
  readonly #silence: () => void;
  #isStopped = false;

  constructor(options: MemberControllersOptions) {
    this.#options = options;
    const { members } = options;
    this.#silence = members.onChange((clusterID) => this.#compare(clusterID));
    for (const { clusterID } of members.list()) this.#compare(clusterID);
  }

  /** Gives up all Leases, so that other supervisors take over at once. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#silence();
    for (const clusterID of this.#started.keys()) this.#end(clusterID);
    await Promise.all(this.#ending.values());
  }

  #compare(clusterID: string): void {
    if (this.#isStopped) return;
    const { members, host, controllerOf, leadershipOf } = this.#options;
    const found = members.get(clusterID);
    const member = found?.isRead === true ? found : undefined;
    const started = this.#started.get(clusterID);
    if (started?.member === member) return;
    if (started !== undefined) this.#end(clusterID);
    if (member === undefined || this.#ending.has(clusterID)) return;
    const controller = host.start(controllerOf(member), leadershipOf(member));
    this.#started.set(clusterID, { member, controller });
  }

  #end(clusterID: string): void {
    const { controller } = this.#started.get(clusterID) as Started;
    this.#started.delete(clusterID);
    const ended = controller
      .stop()
      .catch((error: unknown) => {
        this.#options.log.error('the controller of a member failed', { cluster: clusterID, error });
      })
      .finally(() => {
        this.#ending.delete(clusterID);
        this.#compare(clusterID);
      });
    this.#ending.set(clusterID, ended);
  }
}
