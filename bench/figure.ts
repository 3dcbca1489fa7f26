// One line of the results: a measured value of Hansa, and the value of the program that Hansa is
// compared with (the anchor).

export interface Figure {
  readonly bench: string;
  readonly value: number;
  readonly unit: string;
  /** The extremes of the rounds whose median is the value. */
  readonly min?: number;
  readonly max?: number;
  /** What stands beside it, measured in the same run. */
  readonly anchor?: string;
  readonly anchorValue?: number;
  /** How much better we are: above 1 is better, for rates and for times alike. */
  readonly ratio?: number;
  /** CPU time of all processes of a side for one operation, in microseconds. */
  readonly cpuMicrosEach?: number;
  readonly anchorCpuMicrosEach?: number;
  readonly p99Milliseconds?: number;
  readonly anchorP99Milliseconds?: number;
  /** What the ratio must be at least to hold what is promised. */
  readonly atLeast?: number;
  /** What the value must not exceed to hold what is promised. */
  readonly atMost?: number;
  /** What the ratio should reach; without a ratio, what the value should not exceed. */
  readonly aim?: number;
  /** What the value should not exceed, whatever the anchor's is. */
  readonly aimAtMost?: number;
  /** Size of one answer, to show that both sides send the same. */
  readonly bytes?: number;
  readonly anchorBytes?: number;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  const middle = sorted.length >> 1;
  const upper = sorted[middle];
  if (upper === undefined) return Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

export function percentile99(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.ceil(sorted.length * 0.99) - 1] ?? Number.NaN;
}

/** Of the rounds whose median is the value of a figure; nothing where there is only one. */
export function spread(rounds: readonly number[]): Pick<Figure, 'min' | 'max'> {
  if (rounds.length < 2) return {};
  return { min: rounded(Math.min(...rounds)), max: rounded(Math.max(...rounds)) };
}

/** Three significant digits: what is measured here is not known better. */
export function rounded(value: number): number {
  return Number(value.toPrecision(3));
}
