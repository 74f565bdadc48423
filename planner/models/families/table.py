"""Which family builds an architecture class. An architecture that is not here is refused, never computed as another."""

from __future__ import annotations

#: architecture class in config.json → (module of planner.models.families, function)
FAMILIES: dict[str, tuple[str, str]] = {
    # dense decoders
    "LlamaForCausalLM": ("llama", "llama"),
    "LLaMAForCausalLM": ("llama", "llama"),
    "LlamaModel": ("llama", "llama"),
    "InternLM3ForCausalLM": ("llama", "llama"),
    "IQuestCoderForCausalLM": ("llama", "llama"),
    "AquilaForCausalLM": ("llama", "llama"),
    "YiForCausalLM": ("llama", "llama"),
    "SolarForCausalLM": ("llama", "llama"),
    "TeleChat3ForCausalLM": ("llama", "llama"),
    "XverseForCausalLM": ("llama", "llama"),
    "MistralForCausalLM": ("llama", "mistral"),
    "MistralModel": ("llama", "mistral"),
    "Ministral3ForCausalLM": ("llama", "ministral"),
    "Qwen2ForCausalLM": ("llama", "qwen2"),
    "Qwen2Model": ("llama", "qwen2"),
    "Qwen3ForCausalLM": ("llama", "qwen3"),
    "Qwen3Model": ("llama", "qwen3"),
    "QWenLMHeadModel": ("llama", "qwen1"),
    "Phi3ForCausalLM": ("llama", "phi3"),
    "GraniteForCausalLM": ("llama", "granite"),
    "InternLM2ForCausalLM": ("llama", "internlm2"),
    "InternLMForCausalLM": ("llama", "llama"),
    "BaichuanForCausalLM": ("llama", "baichuan"),
    "BaiChuanForCausalLM": ("llama", "baichuan"),
    "ChatGLMModel": ("llama", "chatglm"),
    "ChatGLMForConditionalGeneration": ("llama", "chatglm"),
    "GlmForCausalLM": ("llama", "glm"),
    "Glm4ForCausalLM": ("llama", "glm4"),
    "ExaoneForCausalLM": ("llama", "exaone"),
    "Exaone4ForCausalLM": ("llama", "exaone4"),
    "CohereForCausalLM": ("llama", "cohere"),
    "Cohere2ForCausalLM": ("llama", "cohere"),
    "OlmoForCausalLM": ("llama", "olmo"),
    "Olmo2ForCausalLM": ("llama", "olmo2"),
    "Olmo3ForCausalLM": ("llama", "olmo2"),
    "StableLmForCausalLM": ("llama", "stablelm"),
    "StableLMEpochForCausalLM": ("llama", "stablelm"),
    "NemotronForCausalLM": ("llama", "nemotron"),
    "ArceeForCausalLM": ("llama", "arcee"),
    "ApertusForCausalLM": ("llama", "apertus"),
    "HunYuanDenseV1ForCausalLM": ("llama", "hunyuan"),
    "Ernie4_5ForCausalLM": ("llama", "ernie"),
    "Ernie4_5_ForCausalLM": ("llama", "ernie"),
    "MiniCPMForCausalLM": ("llama", "minicpm"),
    "SmolLM3ForCausalLM": ("llama", "smollm3"),
    "MiMoForCausalLM": ("llama", "mimo"),
    "SeedOssForCausalLM": ("llama", "seed_oss"),
    "GPT2LMHeadModel": ("gpt", "gpt2"),
    "GPTBigCodeForCausalLM": ("gpt", "gpt_bigcode"),
    "GPTNeoXForCausalLM": ("gpt", "gpt_neox"),
    "GPTJForCausalLM": ("gpt", "gpt_j"),
    "OPTForCausalLM": ("gpt", "opt"),
    "BloomForCausalLM": ("gpt", "bloom"),
    "FalconForCausalLM": ("gpt", "falcon"),
    "RWForCausalLM": ("gpt", "falcon"),
    "PhiForCausalLM": ("gpt", "phi"),
    "Phi3SmallForCausalLM": ("gpt", "phi3_small"),
    "Starcoder2ForCausalLM": ("gpt", "starcoder2"),
    "MPTForCausalLM": ("gpt", "mpt"),
    "MptForCausalLM": ("gpt", "mpt"),
    "GemmaForCausalLM": ("gemma", "gemma"),
    "Gemma2ForCausalLM": ("gemma", "gemma2"),
    "Gemma3ForCausalLM": ("gemma", "gemma3_text"),
    # vision-language models
    "Gemma3ForConditionalGeneration": ("multimodal", "gemma3"),
    "Gemma4ForConditionalGeneration": ("gemma_n", "gemma4"),
    "Gemma4ForCausalLM": ("gemma_n", "gemma4_text"),
    "Gemma3nForCausalLM": ("gemma_n", "gemma3n_text"),
    "Qwen2VLForConditionalGeneration": ("multimodal", "qwen2_vl"),
    "Qwen2_5_VLForConditionalGeneration": ("multimodal", "qwen2_5_vl"),
    "Qwen3VLForConditionalGeneration": ("multimodal", "qwen3_vl"),
    "Qwen3VLMoeForConditionalGeneration": ("multimodal", "qwen3_vl_moe"),
    "Llama4ForConditionalGeneration": ("llama4", "llama4"),
    "Llama4ForCausalLM": ("llama4", "llama4_text"),
    # latent attention
    "DeepseekForCausalLM": ("deepseek", "deepseek_v1"),
    "DeepseekV2ForCausalLM": ("deepseek", "deepseek"),
    "DeepseekV3ForCausalLM": ("deepseek", "deepseek"),
    "DeepseekV32ForCausalLM": ("deepseek", "deepseek"),
    "GlmMoeDsaForCausalLM": ("deepseek", "deepseek"),
    "Glm4MoeLiteForCausalLM": ("deepseek", "deepseek"),
    "MiniCPM3ForCausalLM": ("deepseek", "minicpm3"),
    "DeepseekV4ForCausalLM": ("deepseek_v4", "deepseek_v4"),
    "KimiK25ForConditionalGeneration": ("kimi", "kimi_k25"),
    "KimiLinearForCausalLM": ("kimi", "kimi_linear"),
    "KimiK3ForConditionalGeneration": ("kimi", "kimi_k3"),
    # gated delta hybrids
    "Qwen3NextForCausalLM": ("qwen_hybrid", "hybrid"),
    "Qwen3_5ForCausalLM": ("qwen_hybrid", "hybrid"),
    "Qwen3_5MoeForCausalLM": ("qwen_hybrid", "hybrid"),
    "Qwen3_5ForConditionalGeneration": ("qwen_hybrid", "with_vision"),
    "Qwen3_5MoeForConditionalGeneration": ("qwen_hybrid", "with_vision"),
    # state-space models and their hybrids
    "MambaForCausalLM": ("mamba", "mamba"),
    "FalconMambaForCausalLM": ("mamba", "mamba"),
    "Mamba2ForCausalLM": ("mamba", "mamba2"),
    "JambaForCausalLM": ("mamba", "jamba"),
    "BambaForCausalLM": ("mamba", "bamba"),
    "NemotronHForCausalLM": ("mamba", "nemotron_h"),
    "GraniteMoeHybridForCausalLM": ("mamba", "granite_hybrid"),
    "FalconH1ForCausalLM": ("mamba", "falcon_h1"),
    # mixtures of experts
    "MixtralForCausalLM": ("mixtral", "mixtral"),
    "PhiMoEForCausalLM": ("mixtral", "phimoe"),
    "Qwen2MoeForCausalLM": ("mixtral", "qwen2_moe"),
    "Qwen3MoeForCausalLM": ("mixtral", "qwen3_moe"),
    "GptOssForCausalLM": ("mixtral", "gpt_oss"),
    "GraniteMoeForCausalLM": ("mixtral", "granite_moe"),
    "GraniteMoeSharedForCausalLM": ("mixtral", "granite_moe"),
    "OlmoeForCausalLM": ("mixtral", "olmoe"),
    "Glm4MoeForCausalLM": ("mixtral", "glm4_moe"),
    "SolarOpenForCausalLM": ("mixtral", "glm4_moe"),
    "MiniMaxM2ForCausalLM": ("mixtral", "minimax_m2"),
    "MiMoV2FlashForCausalLM": ("mimo_v2", "mimo_v2"),
    "MiMoV2ForCausalLM": ("mimo_v2", "mimo_v2"),
}

#: Classes whose embedding is built on every pipeline stage, needed or not (vLLM model_executor/models, 0.19 to 0.32).
EMBEDDING_ON_EVERY_STAGE = frozenset(
    "BloomForCausalLM ChatGLMModel ChatGLMForConditionalGeneration CohereForCausalLM Cohere2ForCausalLM FalconForCausalLM "
    "RWForCausalLM GemmaForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM Gemma3ForConditionalGeneration Gemma3nForCausalLM "
    "Gemma4ForCausalLM Gemma4ForConditionalGeneration GPT2LMHeadModel GPTJForCausalLM GptOssForCausalLM "
    "GraniteMoeForCausalLM GraniteMoeHybridForCausalLM GraniteMoeSharedForCausalLM InternLM2ForCausalLM JambaForCausalLM "
    "MambaForCausalLM FalconMambaForCausalLM Mamba2ForCausalLM MiniCPMForCausalLM MixtralForCausalLM NemotronHForCausalLM OlmoeForCausalLM "
    "OPTForCausalLM PhiMoEForCausalLM Qwen2MoeForCausalLM Qwen3MoeForCausalLM Qwen3VLMoeForConditionalGeneration "
    "Qwen3NextForCausalLM Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM Qwen3_5ForConditionalGeneration "
    "Qwen3_5MoeForConditionalGeneration StableLmForCausalLM StableLMEpochForCausalLM Lfm2ForCausalLM Lfm2MoeForCausalLM "
    "MuseGlimmerForCausalLM OlmoHybridForCausalLM".split()
)
#: The same of the output head.
HEAD_ON_EVERY_STAGE = frozenset(
    "BloomForCausalLM ChatGLMModel ChatGLMForConditionalGeneration FalconForCausalLM RWForCausalLM GPT2LMHeadModel "
    "GPTJForCausalLM GptOssForCausalLM GraniteMoeForCausalLM GraniteMoeHybridForCausalLM GraniteMoeSharedForCausalLM "
    "InternLM2ForCausalLM JambaForCausalLM MambaForCausalLM FalconMambaForCausalLM Mamba2ForCausalLM MiniCPMForCausalLM "
    "MixtralForCausalLM NemotronHForCausalLM OlmoeForCausalLM OPTForCausalLM PhiMoEForCausalLM Qwen2MoeForCausalLM "
    "Qwen3MoeForCausalLM Qwen3VLMoeForConditionalGeneration Qwen3NextForCausalLM StableLmForCausalLM "
    "StableLMEpochForCausalLM OlmoHybridForCausalLM".split()
)
