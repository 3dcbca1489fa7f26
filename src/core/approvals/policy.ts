// The approval policy of a site: which actions need approval, and in which mode. Computed from the defaults of
// the planes and `spec.approvals` of the Site. Pure.

/** In order of strength. */
export const approvalModes = ['none', 'approver', 'two-person'] as const;
export type ApprovalMode = (typeof approvalModes)[number];

/** What a write does to a resource, for the policy. */
export type WriteOperation = 'create' | 'update' | 'delete';
const writeOperations: readonly WriteOperation[] = ['create', 'update', 'delete'];

/** An action that a plane declares, with its default. */
export interface DeclaredAction {
  readonly action: string;
  readonly mode: ApprovalMode;
  /** What it is, for the reference. */
  readonly description: string;
  /** This operation on resources of this kind is the same action. */
  readonly write?: {
    readonly kind: string;
    readonly operation: WriteOperation;
    /** Only a write for which this holds. It needs the approval of this action and of the operation. */
    readonly when?: (next: WithSpec | undefined, live: WithSpec | undefined) => boolean;
  };
}

interface WithSpec {
  readonly spec?: unknown;
}

export interface ApprovalPolicy {
  readonly modeOf: (action: string) => ApprovalMode;
  /** The strongest mode of any action: it protects the policy and the rights to approve. */
  readonly strongest: ApprovalMode;
  /** Every action with a rule or a default. */
  readonly actions: readonly string[];
}

function rank(mode: ApprovalMode): number {
  return approvalModes.indexOf(mode);
}

function strongestOf(modes: readonly ApprovalMode[]): ApprovalMode {
  return modes.reduce<ApprovalMode>((a, b) => (rank(b) > rank(a) ? b : a), 'none');
}

/** Whether an approval given in mode `given` is enough where `needed` applies. */
export function isAtLeast(given: ApprovalMode, needed: ApprovalMode): boolean {
  return rank(given) >= rank(needed);
}

/** `approvals` is that field of the spec of a Site. Unreadable rules are ignored: the schema refuses them. */
export function compilePolicy(
  approvals: unknown,
  declared: readonly DeclaredAction[],
): ApprovalPolicy {
  const modes = new Map<string, ApprovalMode>(declared.map(({ action, mode }) => [action, mode]));
  for (const { action, mode } of rulesOf(approvals)) modes.set(action, mode);
  return {
    modeOf: (action) => modes.get(action) ?? 'none',
    strongest: strongestOf([...modes.values()]),
    actions: [...modes.keys()],
  };
}

export interface PolicyRule {
  readonly action: string;
  readonly mode: ApprovalMode;
}

export function rulesOf(approvals: unknown): readonly PolicyRule[] {
  const { rules } = (approvals ?? {}) as { readonly rules?: unknown };
  if (!Array.isArray(rules)) return [];
  return rules.flatMap((rule: unknown) => {
    const { action, mode } = (rule ?? {}) as Partial<Record<string, unknown>>;
    const known = approvalModes.find((one) => one === mode);
    return typeof action === 'string' && known !== undefined ? [{ action, mode: known }] : [];
  });
}

export interface Weakening {
  readonly actions: readonly string[];
  /** The strongest mode that one of these actions had. */
  readonly mode: ApprovalMode;
}

/** The actions whose mode is weaker after the change. Undefined if there are none. */
export function weakeningOf(before: ApprovalPolicy, after: ApprovalPolicy): Weakening | undefined {
  const actions = before.actions
    .filter((action) => rank(after.modeOf(action)) < rank(before.modeOf(action)))
    .toSorted();
  if (actions.length === 0) return undefined;
  return { actions, mode: strongestOf(actions.map((action) => before.modeOf(action))) };
}

/** The action of every write of this kind and operation. */
export function actionOfWrite(
  declared: readonly DeclaredAction[],
  kind: string,
  operation: WriteOperation,
): string {
  const found = declared.find(
    ({ write }) =>
      write?.kind === kind && write.operation === operation && write.when === undefined,
  );
  return found?.action ?? `${kind}.${operation}`;
}

/** The action of this write with the strongest mode: one that it is only sometimes, or that of every such write. */
export function strongestActionOf(
  { modeOf }: Pick<ApprovalPolicy, 'modeOf'>,
  declared: readonly DeclaredAction[],
  kind: string,
  operation: WriteOperation,
  next: WithSpec | undefined,
  live: WithSpec | undefined,
): { readonly action: string; readonly mode: ApprovalMode } {
  const sometimes = declared.filter(
    ({ write }) =>
      write?.kind === kind && write.operation === operation && write.when?.(next, live) === true,
  );
  return [...sometimes.map((one) => one.action), actionOfWrite(declared, kind, operation)]
    .map((action) => ({ action, mode: modeOf(action) }))
    .reduce((a, b) => (rank(b.mode) > rank(a.mode) ? b : a));
}

/** Why a rule cannot name this action; undefined if it can. `kinds` are those that the site serves. */
export function actionProblem(
  action: string,
  declared: readonly DeclaredAction[],
  kinds: readonly string[],
): string | undefined {
  if (declared.some((one) => one.action === action)) return undefined;
  const [kind = '', operation = ''] = action.split('.');
  const known = writeOperations.find((one) => one === operation);
  // Approvals have rules of their own, which no policy changes.
  const served = kinds.filter((one) => one !== 'Approval');
  if (known !== undefined && served.includes(kind)) {
    const same = actionOfWrite(declared, kind, known);
    return same === action ? undefined : `the action is called ${same}`;
  }
  const own = declared.map((one) => one.action).join(', ');
  return `must be ${own === '' ? '' : `one of ${own}, or `}KIND.create, KIND.update or KIND.delete with a kind of this site other than Approval`;
}
